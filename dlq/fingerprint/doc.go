// Package fingerprint decides which failures have one cause, so that they form one group.
//
// The question behind each rule is: would one fix end both of two failures? The function Of applies the first rule that
// fits. A part of a failure counts if it is part of the key.
//
//  1. explicit. A header or a rule of the configuration names the group.
//  2. frame. The class of the innermost cause, the first own frame without its line, and the distinction
//     (below) count, as for shop.NotPricedException in shop.pricing.PriceList.priceOf. Frames of
//     the language and of well-known libraries are not own (own.go). Helpers are not own either:
//     their class and method consist of general words, as in Http.Remote.SendAsync. The frame is
//     searched in the innermost exception first, then in the exceptions around it, since Java
//     elides the frames that exceptions share.
//  3. frame_and_message. The stack trace has no own frame, and the sentence (below) counts. The first
//     frame is shown, but does not count, since it depends on the version of the library.
//  4. message. There is no stack trace, and the sentence counts.
//
// A class counts without its package. In rules 3 and 4, the class counts only if the message says
// little. In rule 4 it also counts if a header names the class of the cause.
//
// In these cases, class and frame differ within one cause, and count less:
//
//   - A constraint of a database is a cause by itself, in every class and frame.
//   - Another service is away (outageOf): it refuses, resets or does not answer, or a proxy answers
//     502, 503 or 504 for it. One outage causes all of these failures, so the word "unavailable"
//     replaces class and text. A port that only one kind of service has, such as 6379, replaces the
//     frame too.
//   - There is no connection to a database; an exception around the innermost exception may say so.
//     One outage causes failures in every frame.
//   - The data cannot be parsed: the word "malformed" replaces class and text.
//   - A recursion may overflow in any of its methods: the method whose name sorts first stands for
//     all methods.
//   - The reason is outside the method: an outage, data that cannot be parsed, a status 5xx, or an
//     exception of a library. Then the frame counts without its method.
//
// # The distinction and the sentence
//
// One method can fail for many causes with one class. Names tell the causes apart: constraints,
// columns, fields, parameters, methods, types and codes that the words around them announce, and
// HTTP statuses (names.go). Names are sorted, because validators report in any order. If a message
// has no names, its words tell causes apart. A helper meets the outages of many services, so the
// host of an outage counts too. The JVM's own texts about a null, a cast or a number do not count:
// they depend on the version of the JVM, and older versions have no such texts.
//
// The sentence has the words, and the names in brackets. The words come from the last part of
// "context: context: reason", and from the parts before it until there are three words, because
// callers may or may not add their contexts. Only the first three words count, or more words if the
// third is a stop word. All variables are left out: words with digits, quoted texts, URLs, hosts,
// names of people, further lines, and texts in brackets. The words before an outage tell outages
// apart. If there are fewer than two words, and a URL names the host, the host tells them apart.
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
// Of reads at most 64 KiB of a stack trace and 4 KiB of a message. It takes linear time.
//
// A change of the rules needs a new Version, because keys are stored. testdata/corpus and
// testdata/development hold failures with the cause that a person gave them. The failures in
// testdata/unseen measure the rules and must not shape the rules.
package fingerprint
