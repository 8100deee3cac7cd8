package ctl

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// filterAnnotation marks the flags that filter messages. docs/dlqctl.md lists these flags once for all commands.
const filterAnnotation = "filter"

// parameterNames maps flags to the names of parameters in the contract. The names of other parameters are the flags with
// underscores instead of hyphens.
var parameterNames = map[string]string{
	"id": "ids", "rate": "rate_limit",
	"ramp": "ramp.steps", "ramp-wait": "ramp.wait", "ramp-confirm": "ramp.confirm", "max-came-back": "ramp.max_came_back",
}

// newFlags makes a set of flags that become parameters or fields of a request.
func newFlags() *pflag.FlagSet { return pflag.NewFlagSet("fields", pflag.ContinueOnError) }

// addFilters adds to a command the flags that filter messages.
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

// parametersOf converts the given flags to parameters with the names of the contract. Each header and each field of the payload
// has its own parameter, such as header.tenant.
func parametersOf(sets ...*pflag.FlagSet) (parameters url.Values, err error) {
	parameters = url.Values{}
	for _, set := range sets {
		set.VisitAll(func(flag *pflag.Flag) {
			if flag.Changed && err == nil {
				err = addParameter(parameters, flag)
			}
		})
	}
	return parameters, err
}

// addParameter adds the value of a flag. An id may have the form of -o name.
func addParameter(parameters url.Values, flag *pflag.Flag) error {
	text := flag.Value.String()
	list, _ := flag.Value.(pflag.SliceValue)
	switch {
	case flag.Name == "group" || flag.Name == "target-id":
		text = withoutNoun(text)
	case flag.Value.Type() == "stringArray":
		return addPairs(parameters, flag.Name, list.GetSlice())
	case list != nil:
		values := list.GetSlice()
		if len(values) == 0 || slices.Contains(values, "") { // such as --id "$IDS" with an unset variable, which would select too much
			return usageError{fmt.Errorf("--%s is empty: leave it out, or give a value", flag.Name)}
		}
		if flag.Name == "id" {
			values = named(values)
		}
		text = strings.Join(values, ",")
	}
	parameters.Set(cmp.Or(parameterNames[flag.Name], underscored(flag.Name)), text)
	return nil
}

func underscored(name string) string { return strings.ReplaceAll(name, "-", "_") }

// addPairs adds the pairs of --header, --payload or --not. Each pair becomes a parameter.
func addPairs(parameters url.Values, flag string, pairs []string) error {
	for _, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return usageError{fmt.Errorf("--%s %q: write it as NAME=VALUE", flag, pair)}
		}
		if flag == "not" && !strings.HasPrefix(name, "header.") && !strings.HasPrefix(name, "payload.") {
			name = underscored(name)
		}
		switch parameter := flag + "." + name; {
		case flag != "not" && parameters.Has(parameter):
			return usageError{fmt.Errorf("--%s %s is given twice", flag, name)}
		case parameter == "not.origin_partition" || parameter == "not.origin_offset":
			number, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				return usageError{fmt.Errorf("--not %s: %q is no whole number", name, value)}
			}
			parameters.Add(parameter, strconv.FormatInt(number, 10))
		default:
			parameters.Add(parameter, value)
		}
	}
	return nil
}
