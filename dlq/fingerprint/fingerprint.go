package fingerprint

import (
	"cmp"
	"crypto/sha256"
	"slices"
	"strings"
)

// Version is the version of the rules. It is part of every key, so that a change of the rules
// makes new groups and does not mix them with old groups.
const Version = 4

const (
	maxName    = 512       // bytes of a stored class, frame, scope or explicit fingerprint
	maxMessage = 1024      // bytes of a stored message
	maxStack   = 64 * 1024 // bytes of a stack trace that are read
)

// Failure has the facts that a fingerprint is made from. Its texts may be long, hostile, and not UTF-8.
type Failure struct {
	Explicit      string // from a header or a rule of the configuration; wins over all else
	ConsumerGroup string // the scope, if known
	DLQTopic      string // the scope of a failure without a consumer group
	ErrorClass    string // from the framework's header; often the class of a wrapper
	CauseClass    string
	Message       string
	StackTrace    string
}

// Rule says what a fingerprint was made from.
type Rule string

// The rules, in the order in which they are tried.
const (
	RuleExplicit        Rule = "explicit"
	RuleFrame           Rule = "frame"
	RuleFrameAndMessage Rule = "frame_and_message"
	RuleMessage         Rule = "message"
)

// Fingerprint identifies the cause of a failure. Failures with equal keys are one group.
type Fingerprint struct {
	// Key is a truncated SHA-256 over the version, the scope, the class, the frame and the message, and tells RuleExplicit
	// from the other rules. The class is left out if the message says enough. Only RuleFrame has the frame.
	Key     [16]byte
	Version int
	Scope   string // the consumer group, else the dead-letter topic
	Rule    Rule
	Class   string // of the innermost cause
	Frame   string // "com.example.Orders.price", without a line
	// Message depends on the rule. For RuleExplicit it is the explicit fingerprint. For RuleFrame it is
	// the distinction, which is often empty. For the other rules it is the sentence. The documentation of
	// the package explains both.
	Message string
}

// Of returns the fingerprint of a failure.
func Of(f Failure) Fingerprint {
	fp := Fingerprint{Version: Version, Scope: cmp.Or(storable(f.ConsumerGroup, maxName), storable(f.DLQTopic, maxName))}
	if explicit := storable(f.Explicit, maxName); explicit != "" {
		fp.Rule, fp.Message = RuleExplicit, explicit
		fp.Key = fp.hash("", "")
	} else {
		fp.setCause(&f)
	}
	return fp
}

// setCause applies the rules that read the failure itself.
func (fp *Fingerprint) setCause(f *Failure) {
	t := readStack(f.StackTrace, f.Message)
	class, message := causeOf(f, &t)
	r := read(message)
	c := cause{reading: &r, trace: &t, class: class, outage: outageOf(class, &r, message)}
	fp.Class, fp.Frame = storable(c.class, maxName), storable(cmp.Or(t.own, t.first), maxName)
	if c.outage == unavailable {
		c.port = servicePort(prefix(message, maxRead))
		if databasePorts[c.port] || slices.ContainsFunc(t.outer, isDatabaseAway) {
			c.outage = noConnection
		} else if fp.Frame == "" {
			c.port = "" // without a frame, the context names the service, and some failures of the service have no port
		}
	}
	frame := ""
	switch {
	case fp.Frame == "":
		fp.Rule, fp.Message = RuleMessage, c.sentence()
	case t.own == "" || c.outage == noConnection || c.port != "":
		fp.Rule, fp.Message = RuleFrameAndMessage, c.sentence()
	default:
		fp.Rule, fp.Message, frame = RuleFrame, c.distinction(), fp.Frame
	}
	fp.Message = storable(fp.Message, maxMessage)
	switch {
	case r.constraint() != "":
		frame = ""
	case frame != "" && (c.outage != "" || isLibraryClass(c.class) || strings.HasPrefix(c.name(nounStatus), "status 5")):
		frame, _ = splitLast(frame, '.') // all methods of a client fail
	}
	fp.Key = fp.hash(c.classOfKey(fp.Rule, f), frame)
}

// causeOf returns class and message of the innermost cause: from the stack trace, or from
// the headers where the stack trace does not have them.
func causeOf(f *Failure, t *trace) (class, message string) {
	message = f.Message
	if message == "" && t.first == "" {
		message, _, _ = strings.Cut(strings.TrimSpace(prefix(f.StackTrace, maxStack)), "\n")
	}
	if message == "null" {
		message = ""
	}
	nestedClass, message := unwrap(message)
	header := cmp.Or(f.CauseClass, nestedClass, f.ErrorClass)
	switch {
	case t.class == "":
		return header, cmp.Or(t.message, message)
	case t.causes == 1 && f.CauseClass != "" && f.CauseClass != t.class && t.class == f.ErrorClass:
		// The headers know a cause that is missing in the stack trace, because the stack trace was cut off.
		return f.CauseClass, message
	case t.message == "" && t.causes == 1 && (t.class == f.ErrorClass || t.class == classPanic):
		return t.class, message
	default:
		return t.class, t.message
	}
}

// unwrap returns class and message of the innermost exception in a message of Spring, such as
// "Listener failed; nested exception is shop.NotFoundException: order 17".
func unwrap(message string) (class, inner string) {
	const nested = "nested exception is "
	message = prefix(message, maxStack)
	i := strings.LastIndex(message, nested)
	if i < 0 {
		return "", message
	}
	inner = message[i+len(nested):]
	if class, rest := splitHead(inner); strings.Contains(class, ".") {
		return class, rest
	}
	return "", inner
}

// hash returns the key. Each component follows its length, so that different components never make the same bytes.
func (fp *Fingerprint) hash(class, frame string) [16]byte {
	var buffer [512]byte
	b := append(buffer[:0], byte(fp.Version))
	if fp.Rule == RuleExplicit {
		b = append(b, 1)
	}
	for _, s := range [...]string{fp.Scope, class, frame, fp.Message} {
		b = append(b, byte(len(s)>>8), byte(len(s)))
		b = append(b, s...)
	}
	sum := sha256.Sum256(b)
	return [16]byte(sum[:16])
}
