package api

import (
	"context"
	"net/http"
	"slices"

	"github.com/gofiber/fiber/v2"

	"dlqmanager/dlq"
)

type meView struct {
	Subject string      `json:"subject"`
	Method  string      `json:"method"`
	Grants  []grantView `json:"grants"`
	Routes  []routeView `json:"routes"`
}

type grantView struct {
	Role        dlq.Role         `json:"role"`
	Topics      []string         `json:"topics"` // globs; ["*"] is all
	Permissions []dlq.Permission `json:"permissions"`
}

// routeView is a route that the sender may call, at least on some topics.
type routeView struct {
	Method     string         `json:"method"`
	Path       string         `json:"path"`
	Permission dlq.Permission `json:"permission"`
}

func (s *Server) me(ctx context.Context, c *fiber.Ctx, _ *query) error {
	sender := accessOf(ctx)
	view := meView{Subject: sender.Subject, Method: sender.Method, Grants: []grantView{}, Routes: []routeView{}}
	for _, g := range sender.Grants {
		topics := g.Topics
		if topics == nil {
			topics = []string{"*"}
		}
		view.Grants = append(view.Grants, grantView{Role: g.Role, Topics: topics, Permissions: slices.Sorted(slices.Values(g.Role.Permissions()))})
	}
	for _, r := range s.table() {
		if r.permission != "" && sender.May(r.permission) {
			view.Routes = append(view.Routes, routeView{Method: r.method, Path: r.path, Permission: r.permission})
		}
	}
	return reply(c, http.StatusOK, view)
}
