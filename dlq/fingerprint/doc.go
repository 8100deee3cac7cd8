// Package fingerprint decides which failures have one cause, so that they form one group.
//
// The question behind each rule is: would one fix end both failures? Of applies the first rule
// that fits.
//
//  1. explicit. A header or a rule of the configuration names the group.
//  2. frame. The class of the innermost cause, the first own frame without its line, and the
//     distinction (below): shop.NotPricedException in shop.pricing.PriceList.priceOf. Frames of
//     the language and of well-known libraries are not own (own.go), nor are helpers, whose
//     class and method consist of general words: Http.Remote.SendAsync. The frame is searched
//     in the innermost exception first, then in those around it, for Java elides the frames
//     that they share.
//  3. frame_and_message. The stack trace has no own frame: the sentence (below). The first frame
//     is shown and does not count, for it differs by the version of the library.
//  4. message. There is no stack trace: the sentence. In rules 3 and 4 the class counts, without
//     its package, only if the message says little or a wrapper wrote it.
//
// Where one of these holds, class and frame differ within one cause, and count less:
//
//   - A constraint of a database is a cause by itself.
//   - Another service is away (outageOf): it refuses, resets or does not answer, or a proxy answers
//     502, 503 or 504 for it. One outage has all of these, so "unavailable" stands for class and
//     text. A port that only one kind of service has, such as 6379, stands for the frame too.
//   - A database has no connection, as an exception around the innermost one may say. One outage
//     meets every frame.
//   - The data cannot be parsed: "malformed" stands for class and text.
//   - A recursion overflows in any of its methods: the first by its name stands for all.
//   - Of the frame, the method does not count in these cases, nor for a status 5xx and for the
//     class of a library, for their reason is often outside the method.
//
// # The distinction and the sentence
//
// One method can fail for many causes with one class. Names in the program tell them apart:
// those that the words around them announce, such as a constraint, column, field, parameter,
// method, type or code, and a status of HTTP (names.go). They are sorted, because validators
// report in any order. If a message has none, its words tell causes apart. Helpers
// meet the outages of many services, which the host tells apart. What the JVM itself says of a null, a cast
// or a number does not count: it depends on the version, and older ones say nothing.
//
// The sentence has the words, and the names in brackets. The words come from the innermost
// part of "context: context: reason" that has at least three, because callers may or may not
// add their contexts. Only the first three count, or more until one says something. All
// variables are left out: what has a digit, quoted text, URLs, hosts, names of people, further
// lines, and what stands in brackets. An outage is told apart by the part before it, and by the
// host if that part has fewer than two words.
//
// # Formats
//
// A stack trace is read by its form, not by a declared language: Java, Kotlin, JavaScript and
// Ruby (chain.go), Go (golang.go), Python (python.go) and .NET (dotnet.go). Generated names are
// replaced by those in the source. The further lines of a message are cut out of the stack trace
// first, for they may look like frames.
//
// # Cost
//
// Of reads at most 64 KiB of a stack trace and 4 KiB of a message in linear time.
//
// A change of the rules needs a new Version: keys are stored. testdata/corpus and
// testdata/development hold failures with the cause that a person gave them. Those in
// testdata/unseen measure the rules and must not shape them.
package fingerprint
