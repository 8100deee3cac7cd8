package console

// sessionTexts are the texts of the ways of signing in.
var sessionTexts = texts{
	"These pages show dead letters and send them back. The server has to know who you are.": "デッドレターの表示と再送を行うページです。利用者の確認が必要です。",
	"Sign in with %s": "%s でサインイン", "Or with a token": "またはトークンでサインイン", "production": "本番",
	"These pages are for the person who started “dlqctl console”. Use the link that it has printed in the terminal.": "このページは「dlqctl console」を起動した本人専用です。ターミナルに表示されたリンクを使ってください。",
	"The link works once. If you have closed the browser since, start “dlqctl console” again.":                       "リンクは一度だけ使えます。ブラウザーを閉じた場合は、「dlqctl console」を起動し直してください。",
	"its tokens are longer than the cookies of a browser; have it put fewer claims into them":                        "トークンがブラウザーの Cookie に収まりません。トークンに入れるクレームを減らしてください",
	"This sign-in was begun in another browser or another tab, or it took more than ten minutes. Begin again.":       "このサインインは別のブラウザーまたはタブで始まったか、10 分を超えました。もう一度始めてください。",
	"The identity provider has refused the sign-in: %s":                                                              "ID プロバイダーがサインインを拒否しました: %s",
	"The API does not accept the token of the identity provider, which its administrators have to change: %s":        "API が ID プロバイダーのトークンを受け付けません。管理者による設定の変更が必要です: %s",
	"The sign-in with the identity provider has failed: %s":                                                          "ID プロバイダーでのサインインに失敗しました: %s",
	"You are signed out": "サインアウトしました", "Sign in again": "もう一度サインイン", "Go on to the identity provider": "ID プロバイダーへ進む",
	"Your session here has ended. The browser goes on to the identity provider, to end the session there too.": "ここでのセッションは終了しました。ID プロバイダーのセッションも終了するため、続けて移動します。",
	"The identity provider does not answer as it should. The log of the server says more.":                     "ID プロバイダーが正しく応答しません。詳細はサーバーのログにあります。",
	"This server only serves to try the manager out: its messages end with it.":                                "試用のためのサーバーです。メッセージはサーバーの停止とともに失われます。",
	"Your sign-in has ended: %s":                             "サインインが終了しました: %s",
	"The identity provider does not answer as it should: %s": "ID プロバイダーが正しく応答しません: %s",
	"The page has a bug. The log of the server says more.":   "ページに不具合があります。詳細はサーバーのログにあります。",
}
