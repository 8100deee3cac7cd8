package dlqtest

import (
	"flag"
	"strconv"
)

// AtOnce makes a package run so many of its parallel tests at once, unless -parallel says otherwise. By
// default they are as many as the machine has cores. TestMain calls it in packages whose tests wait most of
// the time: for timeouts, for intervals, for programs to start.
func AtOnce(tests int) {
	flag.Parse()
	isGiven := false
	flag.Visit(func(f *flag.Flag) { isGiven = isGiven || f.Name == "test.parallel" })
	if !isGiven {
		_ = flag.Set("test.parallel", strconv.Itoa(tests)) // a flag of every test program
	}
}
