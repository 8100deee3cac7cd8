package console

// messageTexts are the texts of messages and single retries.
var messageTexts = texts{
	"Message %s": "メッセージ %s",
	"One dead letter: why it failed, what is in it, and what became of it.": "デッドレター 1 件の失敗の理由、内容、その後の経過です。",
	"Messages with the same cause":                                          "同じ原因のメッセージ",

	// States.
	"Passed by the consumer: its group has committed an offset beyond the message, and it has not come back.": "コンシューマーが通過しました: グループがこのメッセージより先のオフセットをコミットし、メッセージは戻ってきていません。",
	"Not passed by the consumer yet: its group has not committed an offset beyond the message.":               "まだ通過していません: グループがこのメッセージより先のオフセットをコミットしていません。",
	"Not passed: the consumer failed again, and the message came back.":                                       "通過していません: コンシューマーが再び失敗し、メッセージが戻ってきました。",
	"Nobody can say whether the consumer got past it.":                                                        "コンシューマーが通過したかどうかは分かりません。",
	"Nobody can say whether the consumer got past it: %s.":                                                    "コンシューマーが通過したかどうかは分かりません: %s。",

	// The state of a message.
	"Retries used: %d of %d": "使った再送: %d / %d 回", "Written to": "書き込み先",
	"Asked for by": "依頼者", "The retry began:": "再送の開始:", "Suspicious:": "疑わしい内容:",
	"A bulk retry skips it. Read it before you send it.": "一括再送では飛ばされます。送信する前に内容を確認してください。",
	"Its edited copy was sent in its place:":             "代わりに送信した編集済みのコピー:", "It is the edited copy of": "編集元のメッセージ:",
	"It came back as": "戻ってきたときのメッセージ:", "It came back. Before, it was": "戻ってきたメッセージです。前のメッセージ:",
	"It was restored from the archive. There, it is": "アーカイブから復元されたメッセージです。元のメッセージ:", "restored": "復元:",
	"this message": "このメッセージ", "archived": "アーカイブ済み", "came back": "戻ってきた時刻:", "arrived": "到着:",
	"edited copy, made": "編集したコピー、作成:", "delivered": "配信済み", "failed": "失敗", "rejected": "拒否", "a job": "ジョブ",
	"The chain is longer than this. The messages nearest to this one are shown.": "経過はこれより長く続いています。このメッセージに近いものを表示しています。",
	"No.": "回", "Result": "結果", "Sent to": "送信先",
	"No retry of this message has ended yet.": "このメッセージの再送で終わったものはまだありません。",
	"It moves to the archive after":           "アーカイブへの移動:", "It is deleted for ever after": "完全な削除:",

	// Errors.
	"Last error": "最後のエラー", "Retry %d, which ended": "%d 回目の再送、終了:", "Why the consumer failed before that": "その前にコンシューマーが失敗した理由",
	"wrapped in": "包んでいる例外:", "%d frames of libraries": "ライブラリのフレーム %d 件", "Error as the consumer reported it": "コンシューマーが報告したエラー",
	"The rest of the stack trace is left out here. The API has it whole.": "スタックトレースの残りは省略しています。全体は API で取得できます。",
	"The dead letter has no stack trace.":                                 "デッドレターにスタックトレースはありません。",

	// Bytes and headers.
	"JSON": "JSON", "Text": "テキスト", "Hex": "16 進", "Download": "ダウンロード", "Download all %s": "全体 %s をダウンロード", "decoded with its schema": "スキーマで復号",
	"Only the first %s are shown.": "先頭の %s だけを表示しています。", "Only the beginning of %s is shown.": "全体 %s の先頭だけを表示しています。",
	"These bytes are no UTF-8. What is no character is shown as �.": "UTF-8 ではないバイト列です。文字でない部分は � で表示しています。",
	"null: the record has none.":                                    "null: レコードにありません。", "Empty: no bytes.": "空: 0 バイトです。",
	"%d headers more are left out here. The API has all.":                                                               "ほかの %d 件のヘッダーは省略しています。すべて API で取得できます。",
	"In the order of the record. Headers that describe the failure are marked: they come off when the message is sent.": "レコードでの順序です。失敗を記したヘッダーには印があり、送信時に外されます。", "comes off": "送信時に外す",
	"Schema": "スキーマ", "The value cannot be decoded:": "値を復号できません:",
	"The key cannot be decoded:": "キーを復号できません:",
	"Reveal":                     "表示する", "You see parts that are hidden from others, until": "ほかの人には非表示の部分を表示しています。期限:",
	"You see the whole message for ten minutes. The audit has your reason.": "10 分間、メッセージの全体を表示します。理由は監査に記録されました。",
	"Hidden fields:": "非表示の項目:",
	"They are sent back unhidden. Whoever has the permission dlq:message:unmask can reveal them for ten minutes.": "再送では元の値のまま送られます。権限 dlq:message:unmask があれば 10 分間表示できます。",
	"The record that the dead letter points to": "デッドレターが指すレコード",
	"A dead letter of a share group has no value of its own. This is the record of the original topic, read for this page.": "シェアグループのデッドレターは値を持ちません。これは元のトピックからこのページのために読み取ったレコードです。",
	"It cannot be read:": "読み取れません:", "The message has no such part.": "メッセージにその部分はありません。",

	// Origin.
	"Where it comes from": "発生元", "Original record": "元のレコード", "Its time": "その時刻", "Told by": "根拠", "the name of the dead-letter topic": "デッドレタートピックの名前",
	"the request that handed it in": "受け付けたリクエスト", "the headers of": "ヘッダー:", "tried %d times": "%d 回試行",
	"Dead letter": "デッドレター", "no record of Kafka": "Kafka のレコードではありません",
	"Open in Kafka": "Kafka で開く", "Open the trace": "トレースを開く",
	"Changed": "変更", "Trace": "トレース", "Correlation": "相関 ID",
	"For the command line": "コマンドライン", "Copy %s": "%s をコピー", "curl, retry": "curl、再送", "dlqctl, retry": "dlqctl、再送",
	"kcat, dead letter": "kcat、デッドレター", "kcat, origin": "kcat、元のレコード",
	"DLQ_URL is the address of the server, DLQ_TOKEN a token of yours, KAFKA_BROKERS the address of Kafka.": "DLQ_URL はサーバーのアドレス、DLQ_TOKEN は自分のトークン、KAFKA_BROKERS は Kafka のアドレスです。",

	// Changes.
	"Retry is off.": "再送できません。", "Edit and retry": "編集して再送", "More actions": "その他の操作", "Revive": "復活",
	"Mark dead":   "DEAD にする",
	"Retry again": "もう一度再送",
	"If its workflow was ended by hand in Temporal, this starts a new one. Otherwise it joins the one that runs, and nothing is sent twice.": "Temporal でワークフローを手動で終わらせた場合は、新しく始めます。それ以外は実行中のものに合流し、二重に送ることはありません。",
	"Send to another topic": "別のトピックに送る", "Send to this topic": "このトピックに送る", "Delete from %s": "%s から削除",
	"A linked copy goes there, and this message ends as replaced. The topic must be among those that targets.allowed names.": "つながりのあるコピーをそこへ送り、このメッセージは置き換え済みとして終わります。トピックは targets.allowed にあるものに限ります。",
	"It becomes PENDING, with no retry used. Do this when the cause is fixed.":                                               "PENDING になり、使った再送は 0 回に戻ります。原因を直してから実行してください。",
	"It is not sent again unless somebody revives it. A message that is being sent can still be delivered.":                  "復活させない限り、再送されません。送信中のメッセージは配信されることがあります。",
	"Its bytes and its history are deleted for ever. Nobody can bring it back.":                                              "バイト列と経過を完全に削除します。元に戻すことはできません。",
	"A retry is under way.": "再送の途中です。", "All its retries are used up.": "再送の上限に達しました。", "It has ended already.": "すでに終わっています。",
	"It is DEAD. Revive it first.": "DEAD です。先に復活させてください。", "Only a DEAD message can be revived.": "復活できるのは DEAD のメッセージだけです。",
	"An edited copy was sent in its place. Retry that one.": "代わりに編集したコピーを送信しました。そちらを再送してください。",
	"Its headers cannot be read, so it cannot be sent.":     "ヘッダーを読み取れないため、送信できません。", "Parts of it are hidden from you.": "一部が非表示になっています。",
	"You may not do this. An administrator of the manager can give you %s.":                             "この操作の権限がありません。権限 %s の追加は管理者に依頼してください。",
	"The message has changed since you saw it: it is %s now, retries used: %d of %d. Nothing was done.": "表示した後にメッセージが変わりました。現在は %s、使った再送は %d / %d 回です。何も実行していません。",
	"The message is being sent. This page shows what becomes of it.":                                    "メッセージを送信しています。結果はこのページに表示されます。",
	"The message was not delivered: %s":                                                                 "メッセージは配信されませんでした: %s",
	"The message was delivered. Below is whether the consumer got past it.":                             "メッセージを配信しました。コンシューマーが通過したかどうかを下に表示します。",
	"The message is DEAD. It is not sent again unless somebody revives it.":                             "メッセージを DEAD にしました。復活させない限り、再送されません。",
	"The message is PENDING again, with no retry used.":                                                 "メッセージは PENDING に戻りました。使った再送は 0 回です。",
	"The message %s was deleted.":                                                                       "メッセージ %s を削除しました。",

	// Editing.
	"An edited copy is sent, and the message ends as replaced: it can never be sent as well. You see the changes before anything is sent.": "編集したコピーを送信し、元のメッセージは置き換え済みとして終わります。元のメッセージが送られることはありません。送信の前に変更点を確認できます。",
	"Your text is still below.": "入力した内容は下に残っています。", "What will change": "変更点", "Changes": "変更点", "Change it further": "さらに変更する",
	"The rest of the changes is left out here.": "変更点の残りは省略しています。", "It goes to": "送信先",
	"(or where the configuration sends this topic)": "(設定で別の送信先がある場合はそちら)",
	"Send the edited copy":                          "編集したコピーを送信", "Show the changes": "変更点を表示", "Back without a change": "変更せずに戻る", "as": "形式", "text": "テキスト",
	"JSON of the schema": "スキーマの JSON",
	"Edit as text":       "テキストとして編集", "Edit as JSON": "JSON として編集", "JSON with indents": "整形した JSON", "Edit the bytes as base64": "バイト列を base64 で編集",
	"The value is no text, so it is shown as base64.": "値がテキストではないため、base64 で表示しています。",
	"The value has CR in its line ends, which a browser does not keep. Unchanged, its bytes stay exact; a changed text has LF only. Edit base64 " +
		"to keep them.": "値の改行に CR があり、ブラウザーでは失われます。変更しなければバイト列はそのまま残り、変更すると改行は LF だけになります。残すには base64 で編集してください。",
	"%d headers": "ヘッダー %d 件", "Remove": "削除", "Name of header %d": "ヘッダー %d の名前", "Form of header %d": "ヘッダー %d の形式", "Value of header %d": "ヘッダー %d の値",
	"Remove header %d": "ヘッダー %d を削除",
	"Headers that describe the failure come off by themselves when the copy is sent. An empty line adds nothing.": "失敗を記したヘッダーは、コピーの送信時に自動で外されます。空の行は追加されません。",
	"It decides which class a consumer makes of the record, so it stays.":                                         "コンシューマーがどのクラスに変換するかを決めるため、変更できません。",
	"Target topic": "送信先のトピック",
	"Empty: the original topic. Another one must be among those that targets.allowed names.": "空なら元のトピックです。ほかのトピックは targets.allowed にあるものに限ります。",

	"Nothing is changed yet. To send the message as it is, use the button Retry on its page.":  "まだ何も変更していません。そのまま送るには、メッセージのページで「再送」を押してください。",
	"The text has changed since the review. Look at the changes again, then send them.":        "確認の後に内容が変わりました。変更点をもう一度確認してから送信してください。",
	"The value has more than %s, which is too much for a form. Edit it as a file with dlqctl.": "値が %s を超えるため、フォームでは編集できません。dlqctl でファイルとして編集してください。",
	"The message has more headers than a form can hold (%d). Use the API.":                     "ヘッダーがフォームで扱える数 (%d) を超えています。API を使ってください。",
	"%s: this is no JSON. To send it as it is, choose text.":                                   "%s: JSON ではありません。そのまま送るにはテキストを選んでください。",
	"Your session is over. Sign in on another tab, then send this form again.":                 "セッションが終了しました。別のタブでサインインしてから、このフォームをもう一度送信してください。",
	"%s: choose text, base64 or null.":                                                         "%s: テキスト、base64、null のどれかを選んでください。",
	"%s: there is a text, but null is chosen. Choose text, or clear it.":                       "%s: null を選んでいますが、内容があります。テキストを選ぶか、内容を消してください。",
	"%s: this is no base64 with padding.":                                                      "%s: パディング付きの base64 ではありません。", "A header has a value but no name.": "値があるのに名前のないヘッダーがあります。",

	// Single retries.
	"Retries of single messages, running and recent, the newest first. Retries of many messages are jobs.": "メッセージ 1 件ごとの再送です。実行中と最近のものを新しい順に表示します。まとめての再送はジョブにあります。",
	"What the states mean": "状態の意味", "to": "送信先:",
	"joined a retry that was running":                                          "実行中の再送に合流",
	"No retry of a single message here. A message is retried on its own page.": "メッセージ 1 件ごとの再送はありません。再送はメッセージのページで実行します。",
}

var messagePlurals = plurals{
	"%d frames of libraries": "%d frame of libraries", "%d headers": "%d header", "tried %d times": "tried %d time",
	"%d headers more are left out here. The API has all.": "%d header more is left out here. The API has all.",
}
