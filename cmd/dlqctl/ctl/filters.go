package ctl

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"dlqmanager/client"
)

// filters are the flags that choose messages. They have the names of the contract's filters, with hyphens.
type filters struct {
	texts                  map[string]*string // by their names in the contract
	status                 []string
	headers, payload, nots []string
	ids                    []string
	partition, offset      int64
	suspicious             bool

	flags interface{ Changed(string) bool }
}

// filterTexts are the filters whose value is a text.
var filterTexts = map[string]string{
	"error":          "part of the error message",
	"class":          "error class",
	"group":          "id of the group",
	"key":            "key of the message",
	"consumer_group": "consumer group that failed",
	"trace_id":       "trace id",
	"correlation_id": "correlation id",
	"created_from":   "stored at this time or later, as 2026-01-31T08:00:00Z",
	"created_to":     "stored before this time",
}

// filterAnnotation marks the flags that choose messages, which docs/dlqctl.md lists once.
const filterAnnotation = "filter"

func flagName(field string) string { return strings.ReplaceAll(field, "_", "-") }

// addFilters gives a command the flags that choose messages.
func (s *session) addFilters(cmd *cobra.Command) *filters {
	flags := pflag.NewFlagSet("filters", pflag.ContinueOnError)
	f := &filters{texts: map[string]*string{}, flags: cmd.Flags()}
	for _, field := range slices.Sorted(maps.Keys(filterTexts)) {
		f.texts[field] = flags.String(flagName(field), "", filterTexts[field])
	}
	flags.StringSliceVar(&f.status, "status", nil, "status: PENDING, RETRYING, RESOLVED, DEAD")
	flags.StringSliceVar(&f.ids, "id", nil, "ids of messages")
	flags.StringArrayVar(&f.headers, "header", nil, "value of a header, as NAME=VALUE")
	flags.StringArrayVar(&f.payload, "payload", nil, "value in the JSON payload, as PATH=VALUE, such as lines.0.sku=A7")
	flags.StringArrayVar(&f.nots, "not", nil, "leave out the messages with a value, as FILTER=VALUE, such as key=42 or header.tenant=acme")
	flags.Int64Var(&f.partition, "origin-partition", 0, "partition of the original record")
	flags.Int64Var(&f.offset, "origin-offset", 0, "offset of the original record")
	flags.BoolVar(&f.suspicious, "suspicious", false, "only the messages whose headers are suspicious; =false for the others")
	flags.VisitAll(func(flag *pflag.Flag) { flag.Annotations = map[string][]string{filterAnnotation: nil} })
	cmd.Flags().AddFlagSet(flags)
	s.complete(cmd, "status", fixed("PENDING", "RETRYING", "RESOLVED", "DEAD"))
	s.complete(cmd, "group", completeGroups)
	return f
}

// value is the text of a filter. A group may be named as -o name prints it.
func (f *filters) value(field string) string {
	if field == "group" {
		return withoutNoun(*f.texts[field])
	}
	return *f.texts[field]
}

// check refuses an empty list, such as --id "$IDS" without the variable: it would choose more than was meant.
func (f *filters) check() error {
	for flag, values := range map[string][]string{"status": f.status, "id": f.ids} {
		if f.flags.Changed(flag) && (len(values) == 0 || slices.Contains(values, "")) {
			return usageError{fmt.Errorf("--%s is empty: leave it out, or give a value", flag)}
		}
	}
	return nil
}

// query returns the filters of a list. A value within a field has a parameter of its own, such as header.tenant.
func (f *filters) query() ([]client.RequestOption, error) {
	body, err := f.body()
	var options []client.RequestOption
	add := func(name string, value any) {
		switch value := value.(type) {
		case []string:
			options = append(options, client.Query(name, strings.Join(value, ",")))
		case map[string]string:
			for inner, text := range value {
				options = append(options, client.Query(strings.TrimSuffix(name, "s")+"."+inner, text))
			}
		default:
			options = append(options, client.Query(name, fmt.Sprint(value)))
		}
	}
	for field, value := range body {
		excluded, isNot := value.(map[string][]any)
		if !isNot {
			add(field, value)
		}
		for name, values := range excluded {
			for _, value := range values {
				add(field+"."+name, value)
			}
		}
	}
	return options, err
}

func cut(flag, pair string) (name, value string, err error) {
	name, value, ok := strings.Cut(pair, "=")
	if !ok || name == "" {
		return "", "", usageError{fmt.Errorf("--%s %q: write it as NAME=VALUE", flag, pair)}
	}
	return name, value, nil
}

// underscored writes the name of a negated filter as the contract does, and leaves names of headers and paths alone.
func underscored(name string) string {
	if strings.HasPrefix(name, "header.") || strings.HasPrefix(name, "payload.") {
		return name
	}
	return strings.ReplaceAll(name, "-", "_")
}

// body returns the filters of a plan, as fields of its JSON.
func (f *filters) body() (map[string]any, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	body := map[string]any{}
	for field := range f.texts {
		if f.flags.Changed(flagName(field)) {
			body[field] = f.value(field)
		}
	}
	if len(f.status) > 0 {
		body["status"] = f.status
	}
	if len(f.ids) > 0 {
		body["ids"] = named(f.ids)
	}
	if f.flags.Changed("suspicious") {
		body["suspicious"] = f.suspicious
	}
	if f.flags.Changed("origin-partition") {
		body["origin_partition"] = f.partition
	}
	if f.flags.Changed("origin-offset") {
		body["origin_offset"] = f.offset
	}
	for field, pairs := range map[string][]string{"headers": f.headers, "payload": f.payload} {
		values := map[string]string{}
		for _, pair := range pairs {
			flag := strings.TrimSuffix(field, "s")
			name, value, err := cut(flag, pair)
			if err != nil {
				return nil, err
			}
			if _, twice := values[name]; twice {
				return nil, usageError{fmt.Errorf("--%s %s is given twice", flag, name)}
			}
			values[name] = value
		}
		if len(values) > 0 {
			body[field] = values
		}
	}
	not, err := f.negations()
	if len(not) > 0 {
		body["not"] = not
	}
	return body, err
}

// negations returns the excluded values, each field with a list.
func (f *filters) negations() (map[string][]any, error) {
	not := map[string][]any{}
	for _, pair := range f.nots {
		name, value, err := cut("not", pair)
		if err != nil {
			return nil, err
		}
		name = underscored(name)
		var excluded any = value
		if header, ok := strings.CutPrefix(name, "header."); ok {
			name, excluded = "headers", map[string]string{header: value}
		} else if path, ok := strings.CutPrefix(name, "payload."); ok {
			name, excluded = "payload", map[string]string{path: value}
		} else if name == "origin_partition" || name == "origin_offset" {
			if excluded, err = strconv.ParseInt(value, 10, 64); err != nil {
				return nil, usageError{fmt.Errorf("--not %s: %q is no whole number", name, value)}
			}
		}
		not[name] = append(not[name], excluded)
	}
	return not, nil
}
