package ctl

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"dlqmanager/client"
)

// filterAnnotation marks the flags that choose messages, which docs/dlqctl.md lists once.
const filterAnnotation = "filter"

// fieldNames are the names in the contract of flags whose names differ by more than hyphens.
var fieldNames = map[string]string{
	"id": "ids", "header": "headers", "rate": "rate_limit", "ramp": "steps", "ramp-wait": "wait", "ramp-confirm": "confirm",
}

// newFlags makes a set of flags that become fields of a request.
func newFlags() *pflag.FlagSet { return pflag.NewFlagSet("fields", pflag.ContinueOnError) }

// addFilters gives a command the flags that choose messages.
func (s *session) addFilters(cmd *cobra.Command) *pflag.FlagSet {
	flags := newFlags()
	flags.String("error", "", "part of the error message")
	flags.String("class", "", "error class")
	flags.String("group", "", "id of the group")
	flags.String("key", "", "key of the message")
	flags.String("consumer-group", "", "consumer group that failed")
	flags.String("trace-id", "", "trace id")
	flags.String("correlation-id", "", "correlation id")
	flags.String("created-from", "", "stored at this time or later, as 2026-01-31T08:00:00Z")
	flags.String("created-to", "", "stored before this time")
	flags.StringSlice("status", nil, "status: PENDING, RETRYING, RESOLVED, DEAD")
	flags.StringSlice("id", nil, "ids of messages")
	flags.StringArray("header", nil, "value of a header, as NAME=VALUE")
	flags.StringArray("payload", nil, "value in the JSON payload, as PATH=VALUE, such as lines.0.sku=A7")
	flags.StringArray("not", nil, "leave out the messages with a value, as FILTER=VALUE, such as key=42 or header.tenant=acme")
	flags.Int64("origin-partition", 0, "partition of the original record")
	flags.Int64("origin-offset", 0, "offset of the original record")
	flags.Bool("suspicious", false, "only the messages whose headers are suspicious; =false for the others")
	flags.VisitAll(func(flag *pflag.Flag) { flag.Annotations = map[string][]string{filterAnnotation: nil} })
	cmd.Flags().AddFlagSet(flags)
	s.complete(cmd, "status", fixed("PENDING", "RETRYING", "RESOLVED", "DEAD"))
	s.complete(cmd, "group", completeGroups)
	return flags
}

// fieldsOf returns the values of the flags that are given, by their names in the contract.
func fieldsOf(sets ...*pflag.FlagSet) (fields map[string]any, err error) {
	fields = map[string]any{}
	for _, set := range sets {
		set.VisitAll(func(flag *pflag.Flag) {
			if flag.Changed && err == nil {
				fields[cmp.Or(fieldNames[flag.Name], underscored(flag.Name))], err = fieldOf(flag)
			}
		})
	}
	return fields, err
}

func underscored(name string) string { return strings.ReplaceAll(name, "-", "_") }

// fieldOf reads the value of a flag. An id may be written as -o name prints it.
func fieldOf(flag *pflag.Flag) (any, error) {
	text := flag.Value.String()
	list, _ := flag.Value.(pflag.SliceValue)
	switch {
	case flag.Name == "group" || flag.Name == "target-id":
		return withoutNoun(text), nil
	case flag.Name == "header" || flag.Name == "payload":
		return pairs(flag.Name, list.GetSlice())
	case flag.Name == "not":
		return negations(list.GetSlice())
	case flag.Value.Type() == "stringSlice":
		values := list.GetSlice()
		if len(values) == 0 || slices.Contains(values, "") { // such as --id "$IDS" without the variable: it would choose more than was meant
			return nil, usageError{fmt.Errorf("--%s is empty: leave it out, or give a value", flag.Name)}
		}
		if flag.Name == "id" {
			values = named(values)
		}
		return values, nil
	case flag.Value.Type() != "string":
		return json.RawMessage(text), nil // numbers, and true or false, are written as in JSON
	}
	return text, nil
}

// queryOf returns the flags that are given as parameters of a list. A value within a field has a parameter of its own, such as
// header.tenant.
func queryOf(sets ...*pflag.FlagSet) (options []client.RequestOption, err error) {
	var add func(name string, value any)
	add = func(name string, value any) {
		switch value := value.(type) {
		case map[string]string:
			for inner, text := range value {
				add(strings.TrimSuffix(name, "s")+"."+inner, text)
			}
		case map[string][]any:
			for inner, excluded := range value {
				for _, one := range excluded {
					add(name+"."+inner, one)
				}
			}
		case []string:
			add(name, strings.Join(value, ","))
		case json.RawMessage:
			add(name, string(value))
		default:
			options = append(options, client.Query(name, fmt.Sprint(value)))
		}
	}
	fields, err := fieldsOf(sets...)
	for name, value := range fields {
		add(name, value)
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

// pairs returns the values of headers or of paths.
func pairs(flag string, list []string) (map[string]string, error) {
	values := map[string]string{}
	for _, pair := range list {
		name, value, err := cut(flag, pair)
		if err != nil {
			return nil, err
		}
		if _, twice := values[name]; twice {
			return nil, usageError{fmt.Errorf("--%s %s is given twice", flag, name)}
		}
		values[name] = value
	}
	return values, nil
}

// negations returns the excluded values, each field with a list.
func negations(list []string) (map[string][]any, error) {
	not := map[string][]any{}
	for _, pair := range list {
		name, value, err := cut("not", pair)
		if err != nil {
			return nil, err
		}
		var excluded any = value
		if header, ok := strings.CutPrefix(name, "header."); ok {
			name, excluded = "headers", map[string]string{header: value}
		} else if path, ok := strings.CutPrefix(name, "payload."); ok {
			name, excluded = "payload", map[string]string{path: value}
		} else if name = underscored(name); name == "origin_partition" || name == "origin_offset" {
			if excluded, err = strconv.ParseInt(value, 10, 64); err != nil {
				return nil, usageError{fmt.Errorf("--not %s: %q is no whole number", name, value)}
			}
		}
		not[name] = append(not[name], excluded)
	}
	return not, nil
}
