package console

// groupTexts are the texts of causes.
var groupTexts = texts{
	// The list.
	"Dead letters that failed for the same reason, as one row. A cause has the same class, place in your code and message.": "同じ理由で失敗したデッドレターを 1 行にまとめています。同じ原因とは、クラス、コードの場所、メッセージが同じものです。",
	"With messages": "メッセージあり", "Last seen": "最終発生", "Most PENDING": "PENDING の多い順", "Newest": "新しい順",
	"First seen": "初回発生", "owner": "担当", "until": "期限:",
	"This page is empty now.": "このページには項目がなくなりました。", "No cause is like that.": "フィルターに一致する原因はありません。",
	"No dead letters, so no causes.":                                       "デッドレターがないため、原因もありません。",
	"Unknown: the cause also has messages in topics that you may not see.": "不明です。閲覧できないトピックにもこの原因のメッセージがあります。",

	// The explanations of the words.
	"What the words mean": "用語の説明",
	"Nobody has decided anything yet, or a decision has ended. Alerts tell of it.":                  "まだ誰も判断していないか、以前の判断が終わっています。アラートで通知されます。",
	"The cause is known and not fixed yet. Alerts are quiet until a condition of the hold is met.":  "原因は分かっていて、まだ修正されていません。保留の条件を満たすまでアラートは止まります。",
	"Somebody has said that it is fixed. A later record that fails in the same way opens it again.": "修正済みとされています。その後のレコードが同じように失敗すると、再び未対応になります。",

	"Messages that arrived in about the last hour. Archived and deleted messages stay counted here.": "およそ直近 1 時間に到着したメッセージです。アーカイブや削除をしたものも含みます。",

	"Unknown, or there is none. Some numbers are unknown to whoever may not see all topics of the cause.": "不明、または該当なしです。原因のすべてのトピックを閲覧できない場合、一部の数値は不明になります。",

	// The current state.
	"One cause of dead letters: since when, how many, and what can be done about it.": "デッドレターの原因の 1 つです。いつから、何件あり、何ができるかを示します。",
	"Alerts are quiet until the first of these:":                                      "次のいずれかまでアラートは止まります:", "%d more messages": "さらに %d 件の到着", "%d messages in an hour": "1 時間に %d 件の到着", "since": "開始:",
	"It is open again.": "再び未対応になりました。", "The message that came back": "再発したメッセージ",
	"Still arriving.": "まだ到着しています。", "Nothing new for some minutes.": "数分間、新しい到着はありません。", "It may be over.": "収まった可能性があります。",
	"Nothing new for more than an hour.":                                       "1 時間以上、新しい到着はありません。",
	"Whether it still arrives is unknown: some of its topics you may not see.": "まだ到着しているかは不明です。閲覧できないトピックがあります。",
	"Newest message:": "最新のメッセージ:", "PENDING, wait for a retry": "PENDING（再送待ち）", "arrived in the last hour": "直近 1 時間の到着", "arrived ever": "これまでの到着",
	"first seen": "初回発生", "of %d stored": "保存 %d 件中", "Ticket": "チケット", "Note": "メモ", "Owner": "担当者",
	"A record that was written after the fix has failed in the same way.": "修正後に書き込まれたレコードが同じように失敗しました。",
	"The time of the hold has come.":                                      "保留の期限になりました。",
	"As many messages as the hold allowed have arrived in an hour.":       "1 時間の到着数が保留の上限に達しました。",
	"As many messages as the hold allowed have arrived.":                  "到着数が保留の上限に達しました。",

	// Actions.
	"What can be done": "できること",
	"You may look, but not decide about this cause: that needs the permission dlq:group:update on all its topics. Ask an administrator of the manager.": "閲覧はできますが、この原因の判断はできません。すべてのトピックに対する権限 dlq:group:update が必要です。管理者に依頼してください。",
	"Hold": "保留にする", "Change the hold": "保留を変更する", "Hold this cause": "この原因を保留にする",
	"For a cause that is known and waits for a fix. Its alerts are quiet until the first of these conditions is met. Its messages stay, and new ones are stored as before.": "修正を待つ既知の原因に使います。最初に満たされた条件までアラートが止まります。メッセージは残り、新しいものもこれまでどおり保存されます。",
	"For how long": "期間", "1 hour": "1 時間", "3 hours": "3 時間", "4 hours": "4 時間", "8 hours": "8 時間", "1 day": "1 日", "3 days": "3 日", "1 week": "1 週間", "31 days": "31 日",
	"No time, only the conditions below": "期間なし（下の条件のみ）", "Other conditions, owner and reason": "その他の条件、担当者、理由",
	"Until (UTC), in place of the duration": "期限（UTC、期間の代わり）", "Or until so many more have arrived": "または、さらにこの件数が到着するまで", "Or until so many arrive in an hour": "または、1 時間にこの件数が到着するまで",
	"Open again": "未対応に戻す", "Open this cause again": "この原因を未対応に戻す",
	"The conditions of the hold are forgotten.": "保留の条件は破棄されます。", "Alerts tell of the cause again.": "アラートが再び通知されます。",
	"The fix is forgotten with the noted ends of the topics.": "修正の記録とトピックの終端の記録は破棄されます。",
	"Mark as fixed": "修正済みにする", "Which release fixes it": "修正したリリース",
	"For when the fixed consumer runs. The ends of the original topics are noted now. A record beyond them that fails in the same way opens the cause again; earlier ones do not. Nothing is sent: send the messages back afterwards.": "修正したコンシューマーが動いてから使います。元のトピックの終端を今記録します。それより後のレコードが同じように失敗すると、原因は再び未対応になります。それより前のレコードでは変わりません。何も送信されないため、再送は後で行ってください。",
	"Owner, ticket, note": "担当者、チケット、メモ", "For the others who see this cause. An empty field removes what was there.": "この原因を見るほかの人のための情報です。空にすると、以前の内容は削除されます。",

	// Retries.
	"Send its messages back": "メッセージの再送",
	"It still arrives. What is sent back now probably fails again.":                                          "まだ到着しています。今再送しても、また失敗する可能性があります。",
	"First a plan shows what would go and what not. Nothing is sent before you have confirmed it.":           "まず計画で、何が送信され何が送信されないかを確認します。確認するまで何も送信されません。",
	"You may not make plans: that needs the permission dlq:job:create. Ask an administrator of the manager.": "計画を作成する権限がありません。権限 dlq:job:create が必要です。管理者に依頼してください。",
	"Retry this cause…": "この原因を再送…", "First one, then ten, then all…": "1 件、10 件、残りの順に再送…", "its messages": "メッセージの一覧",
	"No message of it is PENDING, so there is nothing to send.": "PENDING のメッセージがないため、送信するものはありません。",

	// The sample.
	"Why it fails": "失敗の理由", "Root cause": "根本原因", "In your code": "自分のコードの場所",
	"The whole message": "メッセージ全体", "one of the newest, stored": "最新のメッセージの 1 つ。保存:",
	"All its messages were archived or deleted.":       "メッセージはすべてアーカイブまたは削除されています。",
	"The sample was archived or deleted a moment ago.": "サンプルは直前にアーカイブまたは削除されました。",

	// The history.
	"Arrivals over time": "到着数の推移", "by itself": "自動",
	"Came back after the fix": "修正後に再発", "What was decided": "これまでの判断", "Nobody has decided anything about it yet.": "この原因については、まだ誰も判断していません。",
	"You may not read the audit, so who has decided what is not shown.": "監査を閲覧する権限がないため、誰が何を判断したかは表示されません。",
	"Owner: %s": "担当者: %s", "Owner removed": "担当者を削除", "Ticket: %s": "チケット: %s", "Ticket removed": "チケットを削除", "Note: %s": "メモ: %s", "Note removed": "メモを削除",
	"What was tried": "これまでの対応", "Began": "開始",
	"Sent messages were acknowledged by Kafka. Those that came back have failed again; more may follow.": "「送信済み」は Kafka が受け取りを確認した件数です。「戻り」は再び失敗した件数で、今後増える可能性があります。",
	"No job of its topics names this cause.":                                                           "この原因を指定したジョブは、トピックの最近のジョブにはありません。",
	"%d other jobs of its topics may have sent messages of it too: their filters do not name a cause.": "原因を指定していないほかの %d 件のジョブも、この原因のメッセージを送信した可能性があります。",

	// The description.
	"No message is stored any more.": "保存されているメッセージはもうありません。", "Why these messages are one cause": "同じ原因とした理由",
	"Rule": "規則", "version": "バージョン", "Scope": "範囲", "the consumer group, or the topic if the group is unknown": "コンシューマーグループ。不明な場合はトピック",
	"Class": "クラス", "Place in the code": "コードの場所",

	// Answers to forms.
	"The cause is held: its alerts are quiet. It opens by itself when a condition is met.": "原因を保留にしました。アラートは止まります。条件を満たすと自動的に未対応に戻ります。",
	"The cause is open again: alerts tell of it.":                                          "原因を未対応に戻しました。アラートで通知されます。",
	"Nothing was different, so nothing was changed.":                                       "違いがないため、何も変更していません。", "Saved.": "保存しました。",
	"The form does not say what to do.": "フォームに操作の指定がありません。", "This is no time: %s": "時刻として読めません: %s", "This is no number above 0: %s": "1 以上の数値ではありません: %s",
	"A hold needs an end: a time, a number of messages, or both. Otherwise nobody would hear of the cause again.": "保留には終わりが必要です。期限、件数、またはその両方を指定してください。終わりがないと、この原因は二度と通知されません。",
	"Marked as fixed. A record that is written from now on and fails in the same way opens the cause again.":      "修正済みにしました。今後書き込まれるレコードが同じように失敗すると、再び未対応になります。",
	"And more topics: %d.": "ほかのトピック: %d。", "The ends of %d partitions of %s are noted.": "%[2]s の %[1]d 個のパーティションの終端を記録しました。",
	"No end of %s could be noted (%s), so the time of writing decides there.": "%s の終端は記録できませんでした（%s）。このトピックでは書き込みの時刻で判断します。",
	"Nothing was changed: the cause has changed since you opened the page.":   "何も変更していません。ページを開いた後に原因の状態が変わりました。",
	"%s at %s UTC: %s.": "%s（%s UTC）: %s。",
	"This page is new now: send the form again if you still want to.": "ページを更新しました。必要であれば、もう一度送信してください。",
}

var groupPlurals = plurals{
	"%d more messages": "%d more message", "%d messages in an hour": "%d message in an hour",
	"The ends of %d partitions of %s are noted.":                                                       "The end of %d partition of %s is noted.",
	"%d other jobs of its topics may have sent messages of it too: their filters do not name a cause.": "%d other job of its topics may have sent messages of it too: its filters do not name a cause.",
}
