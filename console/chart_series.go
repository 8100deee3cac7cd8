package console

// stacked makes the series of a chart. Each of the first limit series gets a colour, and all other series become one series
// with the name rest. So the caller puts the largest series first.
func stacked(all []line, limit int, rest string) []line {
	if len(all) <= limit {
		limit = len(all)
	}
	lines := make([]line, 0, limit+1)
	for i, one := range all[:limit] {
		one.Class = i + 1
		lines = append(lines, one)
	}
	var others line
	for _, one := range all[limit:] {
		others.Points = addPoints(others.Points, one.Points)
	}
	if len(all) > limit {
		others.Name = rest
		lines = append(lines, others)
	}
	return lines
}

// addPoints adds numbers step by step.
func addPoints(a, b []int64) []int64 {
	sum := make([]int64, max(len(a), len(b)))
	copy(sum, a)
	for i, value := range b {
		sum[i] += value
	}
	return sum
}

// wider makes one step of every count steps. It counts from the end, so that only the first step may be incomplete.
func wider(points []int64, count int) []int64 {
	sums := make([]int64, (len(points)+count-1)/count)
	for i, value := range points {
		fromEnd := (len(points) - 1 - i) / count
		sums[len(sums)-1-fromEnd] += value
	}
	return sums
}
