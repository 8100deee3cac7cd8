// Package fingerprint decides which failures have one cause, so that they form one group.
//
// The question behind each rule is: would one fix end both failures? Of applies the first rule
// that fits.
//
//  1. explicit. A header or a rule of the configuration names the group.
//  2. frame. The class of the innermost cause and the first own frame, without its line:
//     shop.NotPricedException in shop.pricing.PriceList.priceOf. Frames of the language and of
//     well-known libraries are not own (own.go). The frame is searched in the innermost
//     exception first, then in those around it, for Java elides the frames that they share.
//  3. frame_and_message. The stack trace has no own frame: the class and the essence of the
//     message (below). The first frame is shown and does not count, for it differs by the
//     version of the library.
//  4. message. There is no stack trace: the essence of the message. The class counts, without
//     its package, only if the message has fewer than three words or is that of a wrapper.
//     The header of the class is often missing or of another form.
//
// A database that is down or has no free connection (isPoolClass) is one cause in all frames,
// so rule 3 applies to it.
//
// # Names in a message
//
// One method can fail for many causes with one class. So rule 2 adds a few parts of the
// innermost message:
//
//   - Names in the program that the words around them announce: a constraint, column, field,
//     parameter, attribute, method, type or code ("missing field currency", unique constraint
//     "customers_email_key", 'due_date' is required, code: CARD_EXPIRED), and the null
//     expression in the message of a NullPointerException. They are sorted, because validators
//     report in any order. A constraint replaces all other names and the class.
//   - A status of HTTP from 400 to 599 and an ORA code.
//   - The host of a URL or in quotes, if the network or a remote service failed. It is searched
//     outwards in the chain, since "Read timed out" does not name it. Hosts in other places are
//     not used: they are there in some failures of a cause and not in others.
//   - If there is none of these: the first four words of the essence in lower case.
//
// # The essence of a message
//
// A template (Template) is a message without variables: e-mails, URLs, hosts, addresses, trace
// ids, UUIDs, hashes, dates, durations, hexadecimal and other numbers, and quoted text that is
// no name. Failures of one cause still differ in what was written around it. The essence
// (essence.go) leaves that out: notes in brackets, further lines, classes and "panic:" before
// the message, contexts such as "attempt 2/3: handle order 17:", and the way in which Go's
// network code reports that a service cannot be reached. The names and the host follow it. Where
// a database names a constraint, a column or a code, the names alone remain, since the text
// depends on its language.
//
// # Formats
//
// A stack trace is read by its form, not by a declared language: Java and Kotlin (java.go), Go
// (golang.go), Python (python.go), JavaScript (node.go), .NET (dotnet.go) and Ruby (ruby.go).
// Generated names are replaced by those in the source. The further lines of a message are cut
// out of the stack trace first, for they may look like frames.
//
// # Cost
//
// Of reads at most 64 KiB of a stack trace and 4 KiB of a message, each line and each character
// a fixed number of times, and never goes back.
//
// A change of the rules needs a new Version: keys are stored. testdata/corpus holds failures
// with the cause that a person gave them. Those in testdata/development were labelled by a
// person who did not know the rules. The tests over both measure the rules.
package fingerprint
