package dlqtest

import (
	"flag"
	"strconv"
)

// AtOnce sets how many parallel tests of a package run at once, unless the flag -parallel is given. Go's
// default is the number of cores. TestMain calls AtOnce in packages whose tests wait most of the time: for
// timeouts, for intervals, for programs to start.
func AtOnce(tests int) {
	flag.Parse()
	isGiven := false
	flag.Visit(func(f *flag.Flag) { isGiven = isGiven || f.Name == "test.parallel" })
	if !isGiven {
		_ = flag.Set("test.parallel", strconv.Itoa(tests)) // a flag of every test program
	}
}
