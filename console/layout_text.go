package console

// layoutTexts are the texts of the layout, of the sign-in, of problems, and of the parts that every page has.
var layoutTexts = texts{
	"DLQ manager": "DLQ マネージャー", "Skip to the content": "本文へ移動", "Pages": "ページ", "Keys": "キー操作", "Sign out": "サインアウト",
	"Overview": "概要", "Causes": "原因", "Jobs": "ジョブ", "Retries": "再送", "Audit": "監査",
	"Updated": "更新", "The server does not answer. This is the state of": "サーバーが応答しません。表示は次の時点の状態です:",
	"Stopped at": "停止した時刻:", "Stop updating": "更新を止める", "API": "API", "shows the keys": "でキー操作の一覧を表示",
	"This list": "この一覧", "Search": "検索", "Next and previous row": "次の行・前の行", "Open the row": "行を開く",
	"Stop and start updating": "更新の停止と再開", "Close": "閉じる",
	"On a cause: the whole message": "原因のページ: メッセージ全体", "On a cause: hold it": "原因のページ: 保留",
	"On a cause: plan a retry in steps. On a job: pause it": "原因のページ: 段階的な再送の計画。ジョブのページ: 一時停止",
	"On a message or a plan: its reason; Enter sends":       "メッセージと計画のページ: 理由の入力欄。Enter で送信",
	"Pages of the list": "一覧のページ", "First page": "最初のページ", "Next page": "次のページ",

	"Sign in": "サインイン", "Token": "トークン", "Enter a token.": "トークンを入力してください。",
	"Enter a token of the API. It stays in this browser for twelve hours, encrypted.": "API のトークンを入力してください。暗号化して、このブラウザーに 12 時間だけ保存します。",
	"An administrator of the manager makes tokens with “dlq-api token new”.":          "トークンは管理者が「dlq-api token new」で作成します。",
	"This is no token: it has spaces, or more than %d bytes.":                         "トークンではありません。空白を含むか、%d バイトを超えています。",
	"The server does not accept this token: %s":                                       "サーバーがこのトークンを受け付けません: %s",

	"Not found": "見つかりません", "Not allowed": "許可されていません", "Needs a database": "データベースが必要です", "Too many requests": "リクエストが多すぎます",
	"Not available": "利用できません", "Not possible": "実行できません", "Try again": "再試行", "Status": "ステータス", "request": "リクエスト",
	"There is no page at this address.":                                                                             "このアドレスのページはありません。",
	"The form was sent from a page of another web site. Nothing was changed.":                                       "フォームが別のサイトのページから送られました。何も変更していません。",
	"It may have been deleted or archived, or your rights do not include its topic.":                                "削除またはアーカイブされたか、トピックに対する権限がない可能性があります。",
	"The page “My access” shows what you may do. An administrator of the manager can give you more.":                "「自分の権限」のページで、できることを確認できます。権限の追加は管理者に依頼してください。",
	"Wait a moment and try again.":                                                                                  "少し待ってから再試行してください。",
	"No message is lost. Try again in a moment; if it stays so, /readyz of the server names the part that is away.": "メッセージは失われていません。少し待ってから再試行してください。続く場合は、サーバーの /readyz が停止している部分を示します。",
	"The server cannot do this now, since a part that it needs is away: %s":                                         "必要な部分が停止しているため、サーバーは今これを実行できません: %s",
	"The API cannot be reached: %s":                                                                                 "API に接続できません: %s",

	"My access": "自分の権限",
	"What you may do here, and how the pages look for you. For more rights, ask an administrator of the manager.": "ここでできることと、表示の設定です。権限の追加は管理者に依頼してください。",
	"Signed in as": "ユーザー", "By": "認証方式", "Roles": "ロール", "Role": "ロール", "Topics": "トピック", "Permissions": "権限", "Appearance": "表示",
	"Language": "言語", "Colours": "配色", "As the system": "システムに合わせる", "Light": "ライト", "Dark": "ダーク", "On": "オン", "Off": "オフ", "Save": "保存",

	"What waits in the dead-letter topics, and since when.": "デッドレタートピックで待っているメッセージと、その時期です。",
	"Topic": "トピック", "Oldest PENDING": "最も古い PENDING", "Newest arrival": "最新の到着", "No dead letters yet.": "デッドレターはまだありません。",
}
