package console

// planTexts are the texts of plans.
var planTexts = texts{
	"Messages of": "対象トピック", "Every message of the topic": "トピックの全メッセージ:", "show them": "一覧を表示", "nothing yet": "まだありません",

	"Nothing is changed yet: the next page counts the messages, shows which would go and which not, and asks.": "まだ何も変更しません。次のページで件数、対象と対象外を確認してから実行します。",
	"I mean every message of the topic":           "トピックの全メッセージを対象にします",
	"How many first":                              "最初に送る件数",
	"A few first, and more only if few come back": "少しずつ送り、戻りが少なければ増やす",
	"All at once":                                 "一度にすべて", "Steps": "段階", "wait": "待ち時間", "at most": "戻りの上限",
	"Messages of each step, with commas":                           "各段階の件数（カンマ区切り）",
	"Wait after each step, such as 30s or 5m":                      "各段階の後の待ち時間（例: 30s、5m）",
	"Percent that may come back before the job pauses itself":      "自動で一時停止する戻りの割合（%）",
	"Also wait until the consumers are past each step’s messages":  "コンシューマーが各段階のメッセージを通過するまで待つ",
	"Messages per second at most; empty for no limit":              "1 秒あたりの最大件数（空欄は無制限）",
	"Target instead of the original topic; empty for the original": "元のトピック以外の送信先（空欄は元のトピック）",
	"Order of sending": "順序", "Keep the order of each key": "キーごとの順序を守る",
	"No order: faster, and a failed message blocks none": "順序なし（速い。失敗しても後続を止めない）",
	"Also messages with suspicious headers":              "疑わしいヘッダーのあるメッセージも送る",
	"Reason, for the audit":                              "理由（監査に記録）", "such as: the payment service is repaired": "例: 決済サービスを修復した",
	"Show the plan": "計画を表示",
	"You may look at the plan but not start its job. An administrator of the manager can give you the right.": "計画は確認できますが、実行する権限がありません。管理者に依頼してください。",
	"Jobs have no filter “%s”. Choose the messages in another way, so that no others are taken.": "ジョブにはフィルター「%s」がありません。" +
		"意図しないメッセージを含めないよう、別の方法で選んでください。",
	"The filter “%s” has no value. Choose the messages again, so that no others are taken.": "フィルター「%s」に値がありません。" +
		"意図しないメッセージを含めないよう、選び直してください。",
	"The filter “%s” has several values. Choose the messages again, so that no others are taken.": "フィルター「%s」に値が複数あります。" +
		"意図しないメッセージを含めないよう、選び直してください。",
	"The value of the filter “%s” is hidden, so it leaves nothing out. Choose the messages again, so that no others are taken.": "フィルター「%s」の値はこのページでは" +
		"伏せられており、何も除外されません。意図しないメッセージを含めないよう、選び直してください。",
	"Choose the messages first, on the page of a topic or of a cause.": "先に、トピックまたは原因のページでメッセージを選んでください。",
	"Mark that you mean every message of the topic.":                   "トピックの全メッセージを対象にすることを確認してください。",

	"These messages would go, and these not. Nothing happens before you press the button at the end.": "対象と対象外のメッセージです。最後のボタンを押すまで何も起こりません。",
	"This plan has expired": "計画の期限が切れました",
	"A plan can be started for a short time only, because messages arrive and change.": "メッセージは増え、変わるため、計画を実行できるのは短い時間だけです。",
	"Make a new one from the page of the topic or of the cause.":                       "トピックまたは原因のページで作り直してください。",
	"Nothing was sent or changed.":                                                     "何も送信、変更していません。", "Plan again": "計画し直す",
	"Open the job that is in the way": "妨げているジョブを開く", "The job of this plan was started.": "この計画のジョブは開始済みです。", "Open the job": "ジョブを開く",
	"would be sent": "送信対象", "would be changed": "変更対象", "left out": "対象外",
	"What would be sent": "送信するメッセージ", "What would be changed": "変更するメッセージ", "Target": "送信先", "and %d more causes": "ほかに %d 件の原因",
	"Error class": "エラークラス", "All that match, by status": "一致した全メッセージの状態", "What is left out": "対象外のメッセージ",
	"%d messages match but stay as they are, because of their status.": "%d 件は一致しますが、状態のため変更しません。",
	"The first of them": "先頭のメッセージ", "How": "実行方法",
	"the original topic of each message": "各メッセージの元のトピック", "none": "なし",
	"of each key: a failed message blocks the later ones of its key": "キーごとに守る（失敗すると、同じキーの後続を止める）",
	"Rate": "送信レート", "at most %d per second": "1 秒あたり最大 %d 件", "no limit": "無制限", "Ramp": "段階送信", "none: all at once": "なし（一度にすべて）",
	"Suspicious": "疑わしいヘッダー", "messages with suspicious headers are sent too": "疑わしいヘッダーのあるメッセージも送る", "Takes": "所要時間", "Valid until": "有効期限",
	"Type the name of the topic to confirm:":             "確認のため、トピック名を入力してください:",
	"No message would go, so there is nothing to start.": "対象のメッセージがないため、実行できません。",
	"Go to the question":                                 "確認へ進む",
	"Change the plan":                                    "計画を変更", "Leave without doing anything": "何もせずに戻る",
	"Send %d messages to %s":                                              "%[1]d 件を %[2]s へ送信",
	"Send %d messages to %d topics":                                       "%[1]d 件を %[2]d 個の送信先へ送信",
	"Nothing was deleted: type the name of the topic, %s, to confirm.":    "削除していません。確認のため、トピック名 %s を入力してください。",
	"The job of this plan was started before. Nothing was started twice.": "この計画のジョブは開始済みです。二重には開始していません。",
	"The job runs. It goes on when you close this page.":                  "ジョブを開始しました。このページを閉じても続きます。",

	"First %s messages, then the rest.": "最初に %s 件、その後に残りを送ります。", "After each step it waits %s.": "各段階の後に %s 待ちます。",
	"It pauses itself if more than %s%% of the messages come back.":   "%s%% を超えて戻ると、自動で一時停止します。",
	"Each step also waits until the consumers are past its messages.": "コンシューマーが各段階のメッセージを通過するまで待ちます。",
	"as fast as the targets take them":                                "送信先が受け付ける速さ",
	"%s of waiting, and the time that the targets take":               "待ち時間 %s と、送信先が受け付ける時間",
	"about %s": "約 %s", "%d s": "%d 秒", "%d min": "%d 分", "%d h %d min": "%d 時間 %d 分", "%d h": "%d 時間", "%d d": "%d 日",
}

var planPlurals = plurals{
	"and %d more causes":       "and %d more cause",
	"Send %d messages of %s":   "Send %d message of %s",
	"Send %d messages to %s":   "Send %d message to %s",
	"Revive %d messages of %s": "Revive %d message of %s", "Mark %d messages of %s dead": "Mark %d message of %s dead",
	"Delete %d messages of %s": "Delete %d message of %s", "Restore %d messages of %s": "Restore %d message of %s",
	"Send %d messages to %d topics":                                    "Send %d message to %d topics",
	"%d messages match but stay as they are, because of their status.": "%d message matches but stays as it is, because of its status.",
}
