package client_test

import (
	"encoding/json"
	"net/url"
	"testing"

	"dlqmanager/client"
)

func TestParametersBecomeTheFieldsOfAPlan(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]string{
		"":                                `{}`,
		"key=&error=a%2Cb":                `{"error":"a,b","key":""}`,
		"status=DEAD&status=PENDING":      `{"status":["DEAD","PENDING"]}`,
		"ids=a,b":                         `{"ids":["a","b"]}`,
		"header.a.b=1&header.c=2":         `{"headers":{"a.b":"1","c":"2"}}`,
		"payload.lines.0.sku=7":           `{"payload":{"lines.0.sku":"7"}}`,
		"origin_offset=9007199254740993":  `{"origin_offset":9007199254740993}`,
		"origin_offset=07&rate_limit=1.5": `{"origin_offset":"07","rate_limit":"1.5"}`,
		"origin_partition=null":           `{"origin_partition":"null"}`,
		"suspicious=false":                `{"suspicious":false}`,
		"suspicious=null":                 `{"suspicious":"null"}`,
		"not.key=1&not.key=2":             `{"not":{"key":["1","2"]}}`,
		"not.header.h=1&not.header.h=2":   `{"not":{"headers":[{"h":"1"},{"h":"2"}]}}`,
		"not.header=1&not.key.x=2":        `{"not":{"header":["1"],"key.x":["2"]}}`,
		"not.origin_partition=3":          `{"not":{"origin_partition":[3]}}`,
		"ramp.steps=1,+10,,x&ramp.wait=5": `{"ramp":{"steps":[1,10,"x"],"wait":"5"}}`,
		"ramp.steps=":                     `{"ramp":{"steps":[]}}`,
		"ramp.max_came_back=0.025":        `{"ramp":{"max_came_back":0.025}}`,
		"ramp.max_came_back=NaN":          `{"ramp":{"max_came_back":"NaN"}}`,
		"include_suspicious=true":         `{"include_suspicious":true}`,
		"error=a&error=b":                 `{"error":["a","b"]}`,
		"header.h=1&header.h=2&header.i=": `{"headers":{"h":["1","2"],"i":""}}`,
		"not=x&not.key=1":                 `{"not":["x",{"key":["1"]}]}`,
		"payload=x&payload.a=1":           `{"payload":["x",{"a":"1"}]}`,
		"headers=x&header.a=1":            `{"headers":[{"a":"1"},"x"]}`,
	} {
		parameters, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		got, err := json.Marshal(client.PlanBody(parameters))
		if err != nil || string(got) != want {
			t.Errorf("%s: %s, %v, not %s", query, got, err, want)
		}
	}
}
