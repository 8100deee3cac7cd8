package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// spread has the results of several runs.
type spread []float64

func (s spread) sorted() spread { return slices.Sorted(slices.Values(s)) }

// quantile is the value below which a share q of the results lies; a q of 0.5 is the median.
func (s spread) quantile(q float64) float64 {
	if len(s) == 0 {
		return math.NaN()
	}
	sorted := s.sorted()
	at := q * float64(len(sorted)-1)
	low, high := int(math.Floor(at)), int(math.Ceil(at))
	return sorted[low] + (sorted[high]-sorted[low])*(at-float64(low))
}

func (s spread) median() float64 { return s.quantile(0.5) }

// over divides each result by the baseline's result of the same run.
func (s spread) over(base spread) spread {
	ratios := make(spread, min(len(s), len(base)))
	for i := range ratios {
		ratios[i] = s[i] / base[i]
	}
	return ratios
}

// show formats the median and, for several results, the minimum and maximum.
func (s spread) show(format func(float64) string) string {
	switch len(s) {
	case 0:
		return "–"
	case 1:
		return format(s[0])
	}
	sorted := s.sorted()
	return fmt.Sprintf("%s [%s–%s]", format(s.median()), format(sorted[0]), format(sorted[len(sorted)-1]))
}

// count formats 28400.4 as 28,400 and 1.234 as 1.23.
func count(n float64) string {
	switch {
	case math.IsNaN(n):
		return "–"
	case n == math.Trunc(n) && math.Abs(n) < 100:
		return strconv.FormatFloat(n, 'f', 0, 64)
	case math.Abs(n) < 1:
		return strconv.FormatFloat(n, 'f', 3, 64)
	case math.Abs(n) < 10:
		return strconv.FormatFloat(n, 'f', 2, 64)
	case math.Abs(n) < 100:
		return strconv.FormatFloat(n, 'f', 1, 64)
	}
	digits := strconv.FormatFloat(n, 'f', 0, 64)
	var b strings.Builder
	for i, digit := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(digit)
	}
	return b.String()
}

func perSecond(n float64) string    { return count(n) + "/s" }
func milliseconds(n float64) string { return count(n) + " ms" }
func seconds(n float64) string      { return count(n) + " s" }
func megabytes(n float64) string    { return count(n/1e6) + " MB" }

// rate is the number of messages per second, for n messages in a time.
func rate(n int, took time.Duration) float64 { return float64(n) / took.Seconds() }
