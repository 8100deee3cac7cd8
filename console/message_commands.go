package console

import (
	"strconv"

	"dlqmanager/client"
)

// command is a command to paste into a shell.
type command struct {
	// ID is the id of the element that has the text.
	ID, Name, Text string
}

// commandsOf makes the commands for a message. Like dlqctl, they read the server and the token from DLQ_URL and DLQ_TOKEN, so that
// no token is on the page.
func (v *visit) commandsOf(m *client.MessageDetail) []command {
	authorization := ""
	if v.user.Method != client.MeMethodNone {
		authorization = ` -H "Authorization: Bearer $DLQ_TOKEN"`
	}
	curl := func(more, path string) string {
		return "curl -fsS" + authorization + more + ` "$DLQ_URL"` + quote(path)
	}
	commands := []command{
		{"command-curl", "curl", curl("", "/api/v1/dlq/messages/"+m.ID)},
		{"command-curl-retry", v.text("curl, retry"), curl(" -X POST -H 'Prefer: wait=10'", "/api/v1/dlq/messages/"+m.ID+"/retry")},
		{"command-dlqctl", "dlqctl", shell("dlqctl", "messages", "get", m.ID)},
		{"command-dlqctl-retry", v.text("dlqctl, retry"), shell("dlqctl", "messages", "retry", m.ID)},
	}
	if v.isInArchive() {
		commands = []command{
			{"command-curl", "curl", curl("", "/api/v1/archive/messages/"+m.ID)},
			{"command-dlqctl", "dlqctl", shell("dlqctl", "archive", "get", m.ID)},
		}
	}
	kcat := func(topic string, partition, offset int64) string {
		return `kcat -b "$KAFKA_BROKERS" ` + shell("-C", "-t", topic, "-p", strconv.FormatInt(partition, 10), "-o", strconv.FormatInt(offset, 10),
			"-c", "1", "-e", "-f", `%k\n%h\n%s\n`)
	}
	if m.Source != nil {
		commands = append(commands, command{"command-kcat", v.text("kcat, dead letter"), kcat(m.DlqTopic, m.Source.Partition, m.Source.Offset)})
	}
	if o := m.Origin; o.Partition != nil && o.Offset != nil {
		commands = append(commands, command{"command-kcat-origin", v.text("kcat, origin"), kcat(o.Topic, *o.Partition, *o.Offset)})
	}
	return commands
}
