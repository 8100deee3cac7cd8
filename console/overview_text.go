package console

// overviewTexts are the texts of the overview and of topics.
var overviewTexts = texts{
	// The chart, which the overview and other pages show.
	"%d in all.": "合計 %d 件。", "Most from %s: %d.": "最多は %s から: %d 件。", "The numbers as a table": "数値を表で見る", "From": "開始",

	// The overview.
	"Now": "現在", "Arrivals": "到着", "Unwell": "異常", "All well": "正常",
	"Database, Kafka and Temporal answer, no ingest is held, no record was lost.": "データベース、Kafka、Temporal が応答しています。取り込みの停止も、失われたレコードもありません。",
	"%s does not answer (%s).": "%s が応答しません (%s)。", "The server is %s.": "サーバーの状態: %s。",
	"It is not known whether the services answer: %s": "各サービスが応答しているか確認できません: %s",
	"The ingest is held because too many messages are PENDING. The records wait in Kafka.": "" +
		"PENDING のメッセージが多すぎるため、取り込みを停止しています。レコードは Kafka で待っています。",

	"Kafka deleted %d records before they were stored here.":                                   "保存する前に、Kafka が %d 件のレコードを削除しました。",
	"Your rights do not include this part. An administrator of the manager can give you more.": "この部分を見る権限がありません。権限の追加は管理者に依頼してください。",
	"This part needs a database.":                                                              "この部分にはデータベースが必要です。",

	"wait for a retry or for you": "再送または対応を待っています", "Arriving per minute": "毎分の到着",
	"mean of the last five minutes": "直近 5 分の平均", "are not retried unless you revive them": "復活させるまで再送しません", "Running jobs": "実行中のジョブ",
	"retries and changes of many messages": "多数のメッセージの再送と変更", "Largest open causes": "未対応の大きな原因", "New causes": "新しい原因", "All of them": "すべて表示",
	"Arrivals of the last 24 hours, by hour": "直近 24 時間の到着 (1 時間ごと)", "Arrivals of the last 30 days, by day": "直近 30 日の到着 (1 日ごと)",
	"other topics": "その他のトピック", "Time of the chart": "グラフの期間", "24 hours": "24 時間", "30 days": "30 日", "Last hour": "直近 1 時間",
	"Since": "発生", "came back after its fix": "修正後に再発", "No open cause.": "未対応の原因はありません。", "ingest held": "取り込み停止", "lost records": "失われたレコードあり",

	"Waits: for a retry that you start, or for your decision.":                                "再送の開始、または判断を待っています。",
	"Is being sent back by a retry or a job.":                                                 "再送またはジョブが送信中です。",
	"Has no retries left or was marked dead. It is not sent back unless somebody revives it.": "再送の回数を使い切ったか、DEAD にされました。復活させるまで送信しません。",
	"Was delivered to its target. Whether a consumer got past it, the message itself says.":   "送信先に配信しました。コンシューマーが処理を通過したかは、メッセージのページに表示します。",

	// An empty installation.
	"The first dead letter is here.": "最初のデッドレターが届きました。", "Show the overview": "概要を表示",
	"This page fills as soon as the first one is stored. There are three ways for it to come in:": "" +
		"最初の 1 件が保存されると、このページに表示されます。取り込む方法は 3 つあります。",

	"From Kafka": "Kafka から",
	"Let your consumers send what they cannot process to a topic whose name ends with .dlq or .dlq.v1, such as:": "" +
		"処理できないレコードを、名前が .dlq または .dlq.v1 で終わるトピックにコンシューマーから送ります。例:",

	"The worker finds new topics by itself, within a minute. Other names are set by kafka.dlq_topic_pattern.": "" +
		"新しいトピックは 1 分以内に自動で見つかります。ほかの名前は kafka.dlq_topic_pattern で設定します。",

	"By the API or dlqctl, without Kafka": "Kafka を使わず、API または dlqctl で", "With the demonstration": "デモで",
	"In a copy of the source, a small shop whose consumers fail:":     "ソースのコピーで、コンシューマーが失敗する小さな店舗を動かします:",
	"If you expected some: your rights may not include their topics.": "あるはずのデッドレターが見えない場合は、そのトピックに対する権限がない可能性があります。",

	// Filters.
	"not: %s": "除外: %s", "header %s is “%s”": "ヘッダー %s が「%s」", "payload %s is “%s”": "ペイロード %s が「%s」", "%d messages by their ids": "ID で選んだ %d 件",
	"error contains “%s”": "エラーに「%s」を含む", "stored from %s": "保存が %s 以降", "stored before %s": "保存が %s より前", "status %s": "ステータス %s",
	"%s is “%s”":             "%sが「%s」",
	"header (with its name)": "ヘッダー (名前を指定)", "field of the payload (with its path)": "ペイロードの項目 (パスを指定)",
	"No filter was added: it needs a value, and a header or a field of the payload needs its name.": "" +
		"フィルターを追加できませんでした。値が必要です。ヘッダーとペイロードの項目には名前も必要です。",

	// A topic.
	"The dead letters of one topic. Choose some by filters or by hand, then plan what becomes of them; nothing is sent before you have " +

		"seen the plan.": "" +
		"1 つのトピックのデッドレターです。フィルターまたは手作業で選び、処理を計画します。計画を確認するまで何も送信しません。",

	"Counts": "件数", "Causes in this topic": "このトピックの原因", "All causes in this topic": "このトピックの原因をすべて表示", "Messages": "メッセージ", "Filters": "フィルター",
	"Remove this filter: %s": "このフィルターを外す: %s", "Remove all filters": "フィルターをすべて外す", "Add a filter": "フィルターを追加", "Field": "項目",
	"Name of the header, or path in the payload": "ヘッダーの名前、またはペイロードのパス", "not: leave these out": "除外する",
	"Add": "追加",
	"The error is searched for a part of it, whatever the case; every other value is exact. Headers, payloads and “not” are read " +

		"message by message, so a page may take a second or two and tell how far it came.": "" +
		"エラーは一部の文字列で検索し、大文字と小文字を区別しません。ほかの値は完全一致です。ヘッダー、ペイロード、「除外」は 1 件ずつ読むため、1～2 秒かかることがあります。その場合は、どこまで読んだかを表示します。",

	"Order:": "並び順:", "newest first": "新しい順", "oldest first": "古い順", "Other changes": "その他の変更",
	"selected:":            "選択:",
	", and the list waits": " (一覧の更新を待機中)", "Selected rows:": "選択した行:", "Selected": "選択", "Plan a retry…": "再送を計画…", "Plan to revive…": "復活を計画…",
	"Plan to mark dead…": "DEAD にする計画…", "Plan to delete…": "削除を計画…", "Dead-letter topic": "デッドレタートピック", "Original topic": "元のトピック",
	"%d messages were looked at": "%d 件を調べました", "up to": "ここまで:", "The next page goes on from there.": "続きは次のページです。",
	"Select all rows of this page": "このページの行をすべて選択", "Select the message %s": "メッセージ %s を選択", "Payload": "ペイロード",
	"no error message": "エラーメッセージなし", "large: open the message": "大きいためメッセージを開いて確認",
	"No message matches these filters on this page.": "このページには、フィルターに一致するメッセージがありません。", "No messages here.": "メッセージはありません。",
	"%d messages match.": "%d 件が一致します。", "%d messages on this page match. A plan counts all of them.": "このページでは %d 件が一致します。全体の件数は計画で数えます。",
	"More than %d messages match. A plan counts all of them.":                "%d 件より多く一致します。正確な件数は計画で数えます。",
	"Nothing was selected. Mark the rows first, or plan for all that match.": "何も選択されていません。先に行を選択するか、一致したすべてを対象に計画してください。",
	"The filters cannot be used as they are:":                                "このフィルターは使えません:",
}

var overviewPlurals = plurals{
	"Kafka deleted %d records before they were stored here.": "Kafka deleted %d record before it was stored here.",
	"%d messages by their ids":                               "%d message by its id", "%d messages were looked at": "%d message was looked at",
	"%d messages match.": "%d message matches.",
	"%d messages on this page match. A plan counts all of them.": "%d message on this page matches. A plan counts all of them.",
	"More than %d messages match. A plan counts all of them.":    "More than %d message matches. A plan counts all of them.",
}
