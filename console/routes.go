package console

import "net/http"

// routes lists every page. Every change is a POST, except the link that signs a person in.
func (c *Console) routes() http.Handler {
	mux := http.NewServeMux()
	page := func(pattern string, h handler) { mux.Handle(pattern, c.signedIn(h)) }
	open := func(pattern string, h handler) { mux.Handle(pattern, c.visited(h)) }

	page("GET /{$}", (*visit).overview)

	// Topics.
	page("GET /topics", func(*visit) (*answer, error) { return goTo("/#topics") })
	page("GET /topics/{topic}", (*visit).topic)
	page("POST /topics/{topic}/selected", (*visit).planSelected)

	// Causes.
	page("GET /groups", (*visit).groups)
	page("GET /groups/{id}", (*visit).group)
	page("POST /groups/{id}", (*visit).changeGroup)

	// Messages and single retries.
	page("GET /messages/{id}", (*visit).message)
	page("GET /messages/{id}/value", (*visit).download)
	page("GET /messages/{id}/edit", (*visit).editForm)
	open("POST /messages/{id}/edit", (*visit).edit) // keeps the text of a person whose session is over
	page("POST /messages/{id}/retry", (*visit).retryMessage)
	page("POST /messages/{id}/dead", (*visit).markDead)
	page("POST /messages/{id}/revive", (*visit).reviveMessage)
	page("POST /messages/{id}/unmask", (*visit).reveal)
	page("POST /messages/{id}/delete", (*visit).deleteMessage)
	page("GET /retries", (*visit).retries)

	// Plans.
	page("GET /plans/new", (*visit).newPlan)
	open("POST /plans/new", (*visit).createPlan) // keeps the form of a person whose session is over
	page("GET /plans/{id}", (*visit).plan)
	page("POST /plans/{id}", (*visit).startPlan)

	// Jobs.
	page("GET /jobs", (*visit).jobs)
	page("GET /jobs/{id}", (*visit).job)
	page("POST /jobs/{id}/pause", steered("pause", pause))
	page("POST /jobs/{id}/resume", steered("resume", resume))
	page("POST /jobs/{id}/rate", (*visit).changeRate)
	page("POST /jobs/{id}/cancel", steered("cancel", cancel))

	// Archive and audit.
	page("GET /archive", (*visit).archive)
	page("POST /archive/runs", (*visit).runArchive)
	page("GET /archive/{id}", (*visit).archived)
	page("GET /archive/{id}/value", (*visit).download)
	page("POST /archive/{id}/restore", (*visit).restore)
	page("POST /archive/{id}/unmask", (*visit).reveal)
	page("GET /audit", (*visit).audit)

	page("GET /me", (*visit).me)

	open("GET /sign-in", (*visit).signInForm)
	open("POST /sign-in", (*visit).signIn)
	open("GET /sign-in/openid", (*visit).goToProvider)
	open("GET "+callbackPath, (*visit).comeBack)
	open("GET /sign-in/link/{secret}", (*visit).followLink)
	open("POST /sign-out", (*visit).signOut)
	open("POST /preferences", (*visit).setPreferences)
	mux.HandleFunc("GET /assets/{file}", serveAsset)
	open("/", (*visit).unknown)
	return mux
}
