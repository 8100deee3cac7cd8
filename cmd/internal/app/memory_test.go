package app

import (
	"math"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func TestTheMemoryLimitIsThatOfTheCgroup(t *testing.T) {
	t.Parallel()
	const none = math.MaxInt64
	for name, test := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"no cgroups": {nil, none},
		"version 2, in a container": {map[string]string{
			"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "536870912\n"}, 512 << 20},
		"version 2, no limit": {map[string]string{
			"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n"}, none},
		"version 2, a service whose slice has less": {map[string]string{
			"proc/self/cgroup":                                  "0::/system.slice/api.service\n",
			"sys/fs/cgroup/system.slice/memory.max":             "268435456\n",
			"sys/fs/cgroup/system.slice/api.service/memory.max": "536870912\n"}, 256 << 20},
		"version 1, in a container": {map[string]string{
			"proc/self/cgroup":                           "5:cpu,cpuacct:/docker/1\n4:memory:/docker/1\n0::/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "536870912\n"}, 512 << 20},
		"version 1, no limit": {map[string]string{
			"proc/self/cgroup":                           "4:memory:/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, none},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := fstest.MapFS{}
			for path, text := range test.files {
				root[path] = &fstest.MapFile{Data: []byte(text)}
			}
			require.Equal(t, test.want, cgroupLimit(root))
		})
	}
}

func TestAnswersHaveHalfOfTheMemoryLimit(t *testing.T) {
	t.Parallel()
	require.EqualValues(t, 230<<20, answerMemory(0, 460<<20))
	require.EqualValues(t, 80<<20, answerMemory(0, 100<<20), "one list, also with masking")
	require.EqualValues(t, 256<<20, answerMemory(0, math.MaxInt64))
	require.EqualValues(t, 1<<30, answerMemory(1<<30, 100<<20))
}
