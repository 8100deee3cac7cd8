package console

import (
	"net/url"
	"slices"
	"strings"
)

// planKinds are the changes of many messages that begin with a plan.
var planKinds = []string{"retry", "revive", "dead", "delete"}

// planPath is the form of a plan. The selection is a query; the server counts its messages and fixes them by a snapshot.
func planPath(kind, topic string, selected url.Values) string {
	return pageOf("/plans/new", with(with(selected, "kind", kind), "topic", topic))
}

// plansOf are the links to the plans for all messages that match.
func (v *visit) plansOf(topic string, selected url.Values) []planLink {
	about := "whole"
	if len(selected) > 0 {
		about = "matching"
	}
	plans := make([]planLink, 0, len(planKinds))
	for _, kind := range planKinds {
		plans = append(plans, planLink{Path: planPath(kind, topic, selected), Text: v.word(about, kind)})
	}
	return plans
}

// planSelected leads from the marked rows to the form of their plan. Without marked rows it refuses, and never takes all rows.
func (v *visit) planSelected() (*answer, error) {
	topic := v.PathValue("topic")
	back, kind := v.back("/topics/"+url.PathEscape(topic)), v.PostFormValue("kind")
	ids := slices.DeleteFunc(slices.Clone(v.PostForm["ids"]), func(id string) bool { return id == "" })
	if len(ids) == 0 || !slices.Contains(planKinds, kind) {
		return v.refusedAs(back, v.text("Nothing was selected. Mark the rows first, or plan for all that match."))
	}
	return goTo(planPath(kind, topic, url.Values{"ids": {strings.Join(ids, ",")}}))
}
