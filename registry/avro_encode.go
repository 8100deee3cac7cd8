package registry

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/avro"
)

func (c avroCodec) encode(_ []byte, edited json.RawMessage) ([]byte, error) {
	value, err := parseJSON(edited)
	if err != nil {
		return nil, err
	}
	w := avroWriter{left: maxAvroSteps}
	if err := w.value(c.root, value); err != nil {
		return nil, err
	}
	return w.out, nil
}

// reads resolves the schemas as Avro's readers do.
func (c avroCodec) reads(writer codec, data []byte) error {
	other, ok := writer.(avroCodec)
	if !ok {
		return badSchema("it has another format")
	}
	resolved, err := avro.Resolve(other.schema, c.schema)
	if err != nil {
		return badValue("%s", short(err))
	}
	// A reader may add all defaults to each record.
	written := avroReader{data: data}
	if written.value(other.root, 0); written.err != nil {
		return written.err
	}
	if bytes.Count(written.out, []byte("{")) > maxWeight/max(c.defaults, 1) {
		return &failure{reasonTooLarge, "it would be too large with the defaults of the schema"}
	}
	var value any
	if _, err := resolved.Decode(data, &value); err != nil {
		return badValue("%s", short(err))
	}
	return nil
}

// maxAvroSteps limits the time of an encoding, since all branches of nested unions are tried. A value
// takes a step, and a further step for each avroStep bytes of a text or symbols of an enum.
const (
	maxAvroSteps = 4 << 20
	avroStep     = 64
)

// avroWriter converts the JSON of avroReader back to Avro's binary encoding.
type avroWriter struct {
	out  []byte
	left int // steps
}

// errAvroSteps ends an encoding, even if a later branch of a union might fit.
var errAvroSteps = &failure{reasonTooLarge, "it has too many values, or too many nested unions"}

// value writes a value of parseJSON.
func (w *avroWriter) value(t *avroType, value any) error {
	text, isText := value.(string)
	if w.left -= 1 + (len(text)+len(t.symbols))/avroStep; w.left < 0 {
		return errAvroSteps
	}
	var fits bool // if false, the caller drops the written bytes
	switch t.kind {
	case "null":
		fits = value == nil
	case "boolean":
		var b bool
		b, fits = value.(bool)
		w.out = append(w.out, map[bool]byte{true: 1}[b])
	case "int", "long":
		var n int64
		n, fits = avroNumber(value, t.logical)
		fits = fits && (t.kind == "long" || n == int64(int32(n)))
		w.out = binary.AppendVarint(w.out, n)
	case "float":
		var f float64
		f, fits = avroFloat(value, 32)
		w.out = binary.LittleEndian.AppendUint32(w.out, math.Float32bits(float32(f)))
	case "double":
		var f float64
		f, fits = avroFloat(value, 64)
		w.out = binary.LittleEndian.AppendUint64(w.out, math.Float64bits(f))
	case "string":
		fits = isText
		w.block([]byte(text))
	case "bytes":
		var b []byte
		b, fits = avroBytes(value, t)
		w.block(b)
	case "fixed":
		var b []byte
		b, fits = avroBytes(value, t)
		fits = fits && len(b) == t.size
		w.out = append(w.out, b...)
	case "enum":
		i := slices.Index(t.symbols, text)
		fits = isText && i >= 0
		w.out = binary.AppendVarint(w.out, int64(i))
	case "union":
		return w.union(t, value)
	case "record":
		return w.record(t, value)
	default: // array, map
		return w.list(t, value)
	}
	if !fits {
		return &misfit{wanted: t}
	}
	return nil
}

// misfit says where a value does not fit. Most branches of a union do not fit, so the text of
// a misfit is made only when it is read.
type misfit struct {
	path   string // a JSON Pointer, to which each caller adds its name
	wanted *avroType
	text   string // set instead of wanted
}

func (m *misfit) Error() string {
	text := m.text
	if m.wanted != nil {
		text = "must be " + m.wanted.String()
	}
	return fmt.Sprintf("%.300s %.1000s", cmp.Or(m.path, "the value"), text)
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

// in puts the name of an element before the path of a misfit. Other errors stay as they are.
func in(name string, err error) error {
	if m, ok := err.(*misfit); ok { //nolint:errorlint // never wrapped
		m.path = "/" + pointerEscapes.Replace(name) + m.path
	}
	return err
}

func (t *avroType) String() string {
	text := "Avro's " + t.kind
	if t.kind == "record" {
		return "an object, since " + t.name + " is a record"
	}
	if t.logical != "" {
		text += " (" + t.logical + ")"
	}
	switch {
	case t.kind == "enum":
		text += " " + strings.Join(t.symbols, ", ")
	case t.kind == "fixed" && t.logical == "":
		text += fmt.Sprintf(" of %d bytes, as base64", t.size)
	case t.kind == "bytes" && t.logical == "":
		text += ", as base64"
	}
	return text
}

func (w *avroWriter) block(b []byte) {
	w.out = append(binary.AppendVarint(w.out, int64(len(b))), b...)
}

// record needs all fields, because the defaults of a schema are for readers.
func (w *avroWriter) record(t *avroType, value any) error {
	object, ok := value.(map[string]any)
	if !ok {
		return &misfit{wanted: t}
	}
	for _, field := range t.fields {
		content, given := object[field.name]
		if !given {
			return in(field.name, &misfit{text: "is missing"})
		}
		if err := w.value(field.value, content); err != nil {
			return in(field.name, err)
		}
	}
	for name := range object {
		if len(object) > len(t.fields) && !slices.ContainsFunc(t.fields, func(f avroField) bool { return f.name == name }) {
			return in(name, &misfit{text: "is not in the schema"})
		}
	}
	return nil
}

func (w *avroWriter) list(t *avroType, value any) error {
	array, isArray := value.([]any)
	object, isObject := value.(map[string]any)
	switch {
	case isArray && t.kind == "array":
		w.count(len(array))
		for i, item := range array {
			if err := w.value(t.item, item); err != nil {
				return in(strconv.Itoa(i), err)
			}
		}
	case isObject && t.kind == "map":
		w.count(len(object))
		for _, name := range slices.Sorted(maps.Keys(object)) {
			w.block([]byte(name))
			if err := w.value(t.item, object[name]); err != nil {
				return in(name, err)
			}
		}
	default:
		return &misfit{wanted: t}
	}
	w.out = append(w.out, 0)
	return nil
}

// count writes the length of a list's only block. The caller writes the 0 that ends the list.
func (w *avroWriter) count(n int) {
	if n > 0 {
		w.out = binary.AppendVarint(w.out, int64(n))
	}
}

// union writes the value with the only branch that fits, since the JSON of avroReader does not name the
// branch. If several branches fit, union returns an error. The value must then name its branch as in Avro's
// JSON encoding, {"long": 5}. Such an object may also fit a map.
func (w *avroWriter) union(t *avroType, value any) error {
	start := len(w.out)
	var found []byte
	var fitting []string
	var wrong error
	try := func(i int, value any) (err error) {
		w.out = binary.AppendVarint(w.out[:start], int64(i))
		if err = w.value(t.branches[i], value); err == nil {
			found = slices.Clone(w.out[start:])
			fitting = append(fitting, t.branches[i].branchName())
		}
		return err
	}
	named, _ := value.(map[string]any)
	for i, branch := range t.branches {
		switch err := try(i, value); {
		case err == errAvroSteps: //nolint:errorlint // never wrapped
			return err
		case err != nil && (branch.kind != "null" || wrong == nil):
			wrong = err
		}
	}
	for i, branch := range t.branches {
		if content, ok := named[branch.branchName()]; ok && len(named) == 1 {
			if err := try(i, content); err == errAvroSteps || err != nil && len(fitting) == 0 { //nolint:errorlint // never wrapped
				return in(branch.branchName(), err)
			}
		}
	}
	w.out = w.out[:start]
	if len(fitting) == 1 {
		w.out = append(w.out, found...)
		return nil
	}
	if len(fitting) > 1 {
		return &misfit{text: fmt.Sprintf("fits several branches of its union: %s; name one, as in {%q: …}", strings.Join(fitting, ", "), fitting[0])}
	}
	return wrong
}

// branchName returns the name that Avro's JSON encoding gives to the branch of a union.
func (t *avroType) branchName() string {
	if t.name != "" {
		return t.name
	}
	return t.kind
}

// avroNumber reads an integer, or the text that avroReader writes for an integer with a logical type.
func avroNumber(value any, logical string) (int64, bool) {
	text, isText := value.(string)
	if !isText {
		number, ok := value.(json.Number)
		n, err := strconv.ParseInt(number.String(), 10, 64)
		return n, ok && err == nil
	}
	t, isTime := avroTimes[logical]
	if !isTime {
		return 0, false
	}
	return t.number(text)
}

func avroFloat(value any, bits int) (float64, bool) {
	switch v := value.(type) {
	case json.Number:
		f, err := strconv.ParseFloat(v.String(), bits)
		return f, err == nil
	case string:
		named := map[string]float64{"NaN": math.NaN(), "Infinity": math.Inf(1), "-Infinity": math.Inf(-1)}
		f, ok := named[v]
		return f, ok
	}
	return 0, false
}

// avroBytes reads base64, or the form that avroReader writes for a logical type.
func avroBytes(value any, t *avroType) ([]byte, bool) {
	if t.logical == "duration" && t.size == 12 {
		return avroDuration(value)
	}
	text, ok := value.(string)
	if !ok {
		return nil, false
	}
	if t.logical == "decimal" && t.scale <= 1000 {
		if b, ok := unscaled(text, t); ok {
			return b, true
		}
		b, err := base64.StdEncoding.DecodeString(text)
		return b, err == nil && len(b) > maxDecimal
	}
	if t.logical == "uuid" && t.size == 16 {
		b, err := hex.DecodeString(strings.ReplaceAll(text, "-", ""))
		return b, err == nil && len(text) == 36
	}
	b, err := base64.StdEncoding.DecodeString(text)
	return b, err == nil
}

func avroDuration(value any) (b []byte, ok bool) {
	parts, _ := value.(map[string]any)
	for _, name := range []string{"months", "days", "milliseconds"} {
		number, _ := parts[name].(json.Number)
		n, err := strconv.ParseUint(number.String(), 10, 32)
		if err != nil {
			return nil, false
		}
		b = binary.LittleEndian.AppendUint32(b, uint32(n))
	}
	return b, len(parts) == 3
}

// unscaled is the inverse of decimal. It returns the shortest two's complement number, or for a fixed, a number with the
// length of the fixed.
func unscaled(text string, t *avroType) ([]byte, bool) {
	digits, fraction, _ := strings.Cut(text, ".")
	isLong := len(text) > 3*maxDecimal || t.size > maxDecimal
	if isLong || len(fraction) > max(t.scale, 0) || !strings.ContainsAny(text, "0123456789") {
		return nil, false
	}
	digits += fraction + strings.Repeat("0", max(t.scale, 0)-len(fraction))
	n, ok := new(big.Int).SetString(digits, 10)
	if !ok || strings.ContainsAny(text, "_+") {
		return nil, false
	}
	// Some readers round to the precision.
	if t.digits > 0 && len(new(big.Int).Abs(n).String()) > t.digits && n.Sign() != 0 {
		return nil, false
	}
	length := max(n.BitLen()/8+1, t.size)
	if n.Sign() < 0 {
		length = max(new(big.Int).Not(n).BitLen()/8+1, t.size)
		n.Add(n, new(big.Int).Lsh(big.NewInt(1), uint(length)*8))
	}
	return n.FillBytes(make([]byte, length)), true
}
