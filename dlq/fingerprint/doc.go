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
//     in the innermost exception first, then in the exceptions around it, since Java elides the
//     frames that exceptions share.
//  3. frame_and_message. The stack trace has no own frame, and the sentence (below) counts. The first
//     frame is shown, but does not count, since it depends on the version of the library.
//  4. message. There is no stack trace, and the sentence counts. In rules 3 and 4 the class counts
//     too, without its package, if the message says little, or in rule 4 if a header names the cause.
//
// In these cases, class and frame differ within one cause, and count less:
//
//   - A constraint of a database is a cause by itself, in every class and frame.
//   - Another service is away (outageOf): it refuses, resets or does not answer, or a proxy answers
//     502, 503 or 504 for it. One outage has all of these, so "unavailable" stands for class and
//     text. A port that only one kind of service has, such as 6379, stands for the frame too.
//   - A database has no connection; an exception around the innermost exception may say so. One
//     outage fails in every frame.
//   - The data cannot be parsed: "malformed" stands for class and text.
//   - A recursion may overflow in any of its methods: the first by name stands for all.
//   - The reason is often outside the method: for an outage, for data that cannot be parsed, for a
//     status 5xx and for the class of a library. Then the frame counts without its method.
//
// # The distinction and the sentence
//
// One method can fail for many causes with one class. Names in the program tell the causes apart: a
// constraint, column, field, parameter, method, type or code that the words around it announce, and
// a status of HTTP (names.go). Names are sorted, because validators report in any order. If a message
// has no names, its words tell causes apart. Helpers meet the outages of many services, and the host
// tells the services apart. The JVM's own texts about a null, a cast or a number do not count: they
// depend on its version, and older versions have none.
//
// The sentence has the words, and the names in brackets. The words come from the last part of
// "context: context: reason", and from the parts before it until there are three words, because
// callers may or may not add their contexts. Only the first three words count, or more if the third
// is a stop word. All variables are left out: words with digits, quoted texts, URLs, hosts, names of
// people, further lines, and texts in brackets. Outages are told apart by the words before them, or
// by the host if a URL names the host and there are fewer than two words.
//
// # Formats
//
// A stack trace is read by its form, not by a declared language: Java, Kotlin, JavaScript and
// Ruby (chain.go), Go (golang.go), Python (python.go) and .NET (dotnet.go). Generated names are
// replaced by the names in the source. The further lines of a message are cut out of the stack
// trace first, since they may look like frames.
//
// # Cost
//
// Of reads at most 64 KiB of a stack trace and 4 KiB of a message in linear time.
//
// A change of the rules needs a new Version: keys are stored. testdata/corpus and
// testdata/development hold failures with the cause that a person gave them. The failures in
// testdata/unseen measure the rules and must not shape the rules.
package fingerprint
