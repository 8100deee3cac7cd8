package console

import "dlqmanager/client"

type overviewData struct{ Topics []client.Topics_Topics }

func (v *visit) overview() (*answer, error) {
	topics, err := v.api.ListTopics(v.Context(), nil)
	if err != nil {
		return nil, err
	}
	return show("overview", v.text("Overview"), overviewData{topics.Value.Topics})
}
