package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTestsAndPackagesAreSortedByTheirTime(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	require.NoError(t, report(strings.NewReader(`# dlqmanager/a
{"Action":"pass","Package":"dlqmanager/a","Test":"TestOne","Elapsed":1}
{"Action":"pass","Package":"dlqmanager/a","Test":"TestTwo/part","Elapsed":9}
{"Action":"fail","Package":"dlqmanager/a","Test":"TestTwo","Elapsed":9.2}
{"Action":"fail","Package":"dlqmanager/a","Elapsed":9.8}
{"Action":"pass","Package":"dlqmanager/b","Elapsed":0.1}
`), &out))
	require.Equal(t, `FAIL a TestTwo
FAIL a 

| test | seconds |
|---|--:|
| `+"`a.TestTwo`"+` | 9 |
| `+"`a.TestOne`"+` | 1 |

| test | seconds |
|---|--:|
| `+"`a`"+` | 10 |
| `+"`b`"+` | 0 |
`, out.String())
}
