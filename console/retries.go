package console

import "dlqmanager/client"

// retriesData is the page of single retries.
type retriesData struct {
	Retries      []retryData
	Topic, Actor string
	First, Next  string
	// States explains the states.
	States []stateData
}

type retryData struct {
	client.SingleRetry

	About string
}

type stateData struct {
	State client.SingleRetryState
	About string
}

var retryStates = []client.SingleRetryState{
	client.SingleRetryStateUNCLAIMED, client.SingleRetryStateRUNNING, client.SingleRetryStateSUCCEEDED, client.SingleRetryStateFAILED,
	client.SingleRetryStateCANCELLED, client.SingleRetryStateGONE,
}

func (v *visit) retries() (*answer, error) {
	params := &client.ListSingleRetriesParams{PageSize: new(int64(50)), Cursor: v.query("cursor"), Topic: v.query("topic"), Actor: v.query("actor")}
	got, err := v.api.ListSingleRetries(v.Context(), params)
	if err != nil {
		return nil, err
	}
	d := retriesData{Topic: valueOf(params.Topic), Actor: valueOf(params.Actor)}
	for _, retry := range got.Value.Retries {
		d.Retries = append(d.Retries, retryData{retry, v.aboutRetryState(retry.State)})
	}
	for _, state := range retryStates {
		d.States = append(d.States, stateData{state, v.aboutRetryState(state)})
	}
	d.First, d.Next = cursorPages("/retries", v.asked("topic", "actor", "cursor"), got.Value.Pagination.NextCursor)
	return show("retries", v.text("Retries"), d)
}
