package console

// jobTexts are the texts of jobs.
var jobTexts = texts{
	"Retries and changes of many messages, newest first. A job is a workflow: it goes on when you close this page.": "多数のメッセージの再送と変更です。新しい順に表示します。" +
		"ジョブはワークフローなので、ページを閉じても続きます。",
	"Kind": "種類", "State": "状態", "all": "すべて",
	"Started by": "開始した人", "Started": "開始", "at any time": "すべての期間", "Show": "表示", "Progress": "進み具合", "Steer": "操作",
	"This job has changed meanwhile. Nothing was changed.": "ジョブの状態が変わっていたため、何も変更していません。",
	"%d came back": "戻り %d 件", "%d failed": "失敗 %d 件", "%d dead": "DEAD %d 件", "%d waiting": "待機 %d 件",
	"You may not steer jobs.": "ジョブを操作する権限がありません。",
	"An administrator of the manager can give you the right; “My access” shows what you have.": "管理者に依頼してください。現在の権限は「自分の権限」で確認できます。",
	"No job matches.": "一致するジョブはありません。",
	"No jobs yet. One begins with a plan, on the page of a topic or of a cause.": "ジョブはまだありません。トピックまたは原因のページで計画を作ると始まります。",
	"topic %s": "トピック %s", "started by %s": "開始した人 %s", "started from %s": "%s 以降に開始", "started before %s": "%s より前に開始",

	"%s of %s": "%[2]s の%[1]s",
	"What this job sends, how far it is, and what became of the messages. It goes on when you close this page.": "ジョブの内容、進み具合、送信したメッセージの結果です。ページを閉じても続きます。",
	"What this job changes, and how far it is. It goes on when you close this page.":                            "ジョブの内容と進み具合です。ページを閉じても続きます。",
	"ended": "終了", "ends about": "終了見込み", "Why it ended:": "終了の理由:", "Why it waits:": "待っている理由:", "done": "完了", "now": "現在", "the rest": "残り",
	"The messages are being counted. Nothing is sent yet.": "件数を数えています。まだ送信していません。",
	"%d of %d sent":    "%[2]d 件中 %[1]d 件を送信",
	"%d of %d changed": "%[2]d 件中 %[1]d 件を変更",
	"limit %d":         "上限 %d", "%s per second on average (%s)": "平均 %s 件/秒（%s）",
	"%s per second over the last ten seconds, %s on average (%s)": "直近 10 秒は %s 件/秒、平均 %s 件/秒（%s）",
	"%s per second on average":                                    "平均 %s 件/秒", "%s per second over the last ten seconds": "直近 10 秒は %s 件/秒",
	"%s; at its fastest %s per second": "%s、最大 %s 件/秒", "Rate over time": "レートの推移", "Messages sent in each %s": "%s ごとの送信件数", "Messages changed in each %s": "%s ごとの変更件数",
	"passed by the consumer":    "コンシューマーが通過",
	"sent":                      "送信済み",
	"came back as dead letters": "戻り",
	"not delivered":             "配信できず",
	"skipped":                   "スキップ",
	"changed":                   "変更済み",

	"Pause": "一時停止", "Resume": "再開", "Per second": "1 秒あたり", "Change the rate": "レートを変更", "Cancel the job…": "ジョブを中止…", "Cancel this job": "このジョブを中止",
	"The job ends for good. What it has done stays done; the other messages stay as they are, and a new plan can take them.": "ジョブを終了します。実行済みの結果は残り、" +
		"ほかのメッセージはそのままです。新しい計画で実行できます。",
	"A pause takes up to two seconds: the current pages are finished, nothing is left half-sent, and a resume goes on from there.": "一時停止には最大 2 秒かかります。" +
		"処理中のページを終えるため、送信途中のものは残りません。再開すると続きから送ります。",
	"The job has changed since this page was shown: it is %s now. Nothing was changed.": "表示の後に状態が %s に変わったため、何も変更していません。",
	"The limit was changed meanwhile: it is %s now. Nothing was changed.":               "上限が %s に変わっていたため、何も変更していません。",
	"“%s” is no whole number of messages per second.":                                   "「%s」は 1 秒あたりの件数（整数）ではありません。",
	"The limit is %s now.": "上限を %s に変更しました。", "%d per second": "1 秒あたり %d 件",

	"Numbers":            "件数の内訳",
	"Number":             "件数",
	"Meaning":            "意味",
	"Matched":            "対象",
	"Sent":               "送信済み",
	"Changed by the job": "変更済み",
	"Passed":             "通過",
	"Not passed":         "未通過",
	"Nobody knows":       "確認できず",
	"Came back":          "戻り", "Dead": "DEAD", "Waiting": "待機", "Skipped": "スキップ",
	"Messages in the scope when the job was created. Later arrivals are not touched.": "ジョブの作成時点で対象だったメッセージ。後から届いたものは含みません。",
	"Exact at any time.": "常に正確な値です。",
	"Changed by others meanwhile, locked, or not reached before a cancellation. Known at the end.": "ほかの操作で変更または削除されたもの、ロック中のもの、中止により未処理のもの。終了時に確定します。",
	"PENDING with retries left when the job was created. Later arrivals are not sent.":             "ジョブの作成時点で、再送回数が残っていた PENDING のメッセージ。後から届いたものは送りません。",
	"The target has acknowledged them. That does not say that a consumer could process them.":      "送信先が受け付けたもの。コンシューマーが処理できたとは限りません。",
	"The consumer group has committed an offset beyond them, and they have not come back.":         "コンシューマーグループがその先のオフセットをコミットし、戻っていないもの。",
	"The consumer group has not got there yet.":                                                    "コンシューマーグループがまだ到達していないもの。",
	"No commit can be compared; the reasons are below.":                                            "比べられるコミットがないもの。理由は下に示します。",
	"Sent, and in a dead-letter topic again, as new messages. It can still grow after the end.":    "送信後、新しいメッセージとしてデッドレタートピックに戻ったもの。終了後に増えることもあります。",
	"Not delivered, and PENDING again.":                                                            "配信できず、PENDING に戻ったもの。",
	"Not delivered, no retries left, and now DEAD.":                                                "配信できず、再送回数がなくなり DEAD になったもの。",
	"Not sent yet: their partition or target refuses everything, or an earlier message of their key waits.": "未送信のもの。パーティションや送信先がすべて拒否しているか、" +
		"同じキーの先のメッセージが待っています。",
	"Not sent: blocked by a failed message of their key, changed by others, or unsent when the job ended.": "送らなかったもの。同じキーの失敗、ほかの操作による変更、またはジョブの終了によります。",

	"The job was cancelled. What it had done stays done; the other messages stay as they were.":         "ジョブは中止されました。実行済みの結果は残り、ほかのメッセージはそのままです。",
	"The job ended by an error. What it had done stays done; the other messages stay as they were.":     "ジョブはエラーで終了しました。実行済みの結果は残り、ほかのメッセージはそのままです。",
	"The job is done: %d messages were changed.":                                                        "ジョブは完了しました。%d 件を変更しました。",
	"%d messages were skipped, because others changed them meanwhile or the job ended before them.":     "%d 件をスキップしました。ほかの操作で変わったか、先にジョブが終了したためです。",
	"%d messages came back: their cause is not repaired.":                                               "%d 件が戻りました。原因は修復されていません。",
	"%d messages could not be delivered and are PENDING again.":                                         "%d 件は配信できず、PENDING に戻りました。",
	"%d messages could not be delivered and have no retries left.":                                      "%d 件は配信できず、再送回数が残っていません。",
	"%d messages were not sent, because an earlier message of their key failed or others changed them.": "%d 件は送りませんでした。同じキーの先のメッセージが失敗したか、ほかの操作で変わったためです。",
	"All %d messages were sent, and the consumers are past each of them.":                               "%d 件すべてを送信し、コンシューマーがすべて通過しました。",
	"%d sent messages wait for their consumer. Look again later: what comes back is counted here.": "送信した %d 件がコンシューマーを待っています。後でもう一度確認してください。" +
		"戻ったものはここで数えます。",
	"Nobody can say whether a consumer got past %d sent messages.": "送信した %d 件をコンシューマーが通過したかどうかは確認できません。",
	"No message matched, so nothing was sent.":                     "一致するメッセージがなく、何も送信していません。",
	"Plan the rest": "残りを計画", "Look at what came back": "戻ったものを表示", "Look at the dead ones": "DEAD のものを表示",

	"all that is left waits for a target that refuses everything: %s": "残りはすべて、拒否し続ける送信先を待っています: %s",

	"“Completed” is not “repaired”: what do passed and came back mean?": "「COMPLETED」は「修復済み」ではありません: 通過と戻りの意味",
	"COMPLETED says that the job has sent what it could. Whether the consumers could process the messages shows later.": "COMPLETED は、" +
		"送れるものを送り終えたことを示します。コンシューマーが処理できたかどうかは後で分かります。",
	"Passed: the consumer group has committed an offset beyond the message, and it has not come back. That is the best that Kafka can " +
		"tell; a consumer that commits before it works can pass without processing.": "通過: コンシューマーグループがその先のオフセットをコミットし、メッセージが戻っていないこと。Kafka から分かるのはここまでで、" +
		"処理の前にコミットするコンシューマーでは、処理せずに通過することがあります。",
	"Came back: the message is in a dead-letter topic again, as a new one that remembers where it came from.": "戻り: メッセージが、" +
		"元をたどれる新しいメッセージとしてデッドレタートピックに戻ったこと。",
	"The job has sent more than 20,000 messages. Passed, not passed and nobody knows count the newest of them only.": "このジョブは 20,000 件を超えて送信しました。通過、" +
		"未通過、確認できずは、新しいものだけを数えます。",
	"Why nobody knows about some": "確認できない理由",

	"What was asked for": "ジョブの内容", "Reason": "理由", "who did what with it": "操作の記録", "Temporal’s Web UI": "Temporal の Web UI",
}

var jobPlurals = plurals{
	"The job is done: %d messages were changed.": "The job is done: %d message was changed.",
	"%d messages were skipped, because others changed them meanwhile or the job ended before them.": "%d message was skipped, because others changed " +
		"it meanwhile or the job ended before it.",
	"%d messages came back: their cause is not repaired.":          "%d message came back: its cause is not repaired.",
	"%d messages could not be delivered and are PENDING again.":    "%d message could not be delivered and is PENDING again.",
	"%d messages could not be delivered and have no retries left.": "%d message could not be delivered and has no retries left.",
	"%d messages were not sent, because an earlier message of their key failed or others changed them.": "%d message was not sent, because an earlier " +
		"message of its key failed or others changed it.",
	"All %d messages were sent, and the consumers are past each of them.": "%d message was sent, and the consumers are past it.",
	"%d sent messages wait for their consumer. Look again later: what comes back is counted here.": "%d sent message waits for its consumer. Look " +
		"again later: what comes back is counted here.",
	"Nobody can say whether a consumer got past %d sent messages.": "Nobody can say whether a consumer got past %d sent message.",
}
