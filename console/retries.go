package console

import "dlqmanager/client"

// retriesData is the page of single retries.
type retriesData struct {
	listing

	Retries []client.SingleRetry
}

func (v *visit) retries() (*answer, error) {
	params := &client.ListSingleRetriesParams{PageSize: new(int64(50)), Cursor: v.query("cursor"), Topic: v.query("topic"), Actor: v.query("actor")}
	got, err := v.api.ListSingleRetries(v.Context(), params)
	if err != nil {
		return nil, err
	}
	d := retriesData{Retries: got.Value.Retries, listing: listing{Path: "/retries", Asked: v.asked("topic", "actor", "cursor")}}
	d.listing = d.turned(d.Asked, got.Value.Pagination.NextCursor)
	return show("retries", v.text("Retries"), d)
}
