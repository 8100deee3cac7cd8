package registry

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"strconv"
)

// maxJSON limits the JSON of an Avro value, in bytes. Each element adds to the JSON, so the limit also
// bounds the time. Elements of some types are encoded in no bytes, so a few bytes can stand for any number
// of elements.
const maxJSON = 8 << 20

// avroReader converts Avro's binary encoding to JSON. A union becomes its value, and bytes become base64.
// Values of logical types are written for people, such as "2026-02-20T10:30:00Z" and "12.50".
type avroReader struct {
	data []byte // not read yet
	out  []byte
	err  error // the first error; nothing is read after it
}

var errCut = badValue("it was not written with its schema: it ends too early")

func (r *avroReader) fail(err error) {
	if r.err == nil {
		r.err, r.data = err, nil
	}
}

func (r *avroReader) value(t *avroType, depth int) {
	if depth > maxNesting {
		r.fail(&failure{reasonTooLarge, "its values are nested too deep"})
	}
	if len(r.out) > maxJSON {
		r.fail(&failure{reasonTooLarge, "it would be too large when decoded"})
	}
	if r.err != nil {
		return
	}
	switch t.kind {
	case "null":
		r.out = append(r.out, "null"...)
	case "boolean":
		r.out = strconv.AppendBool(r.out, r.take(1)[0] != 0)
	case "int", "long":
		r.number(r.long(), t.logical)
	case "float":
		r.float(float64(math.Float32frombits(binary.LittleEndian.Uint32(r.take(4)))), 32)
	case "double":
		r.float(math.Float64frombits(binary.LittleEndian.Uint64(r.take(8))), 64)
	case "string":
		r.out = appendText(r.out, string(r.block()))
	case "bytes":
		r.bytes(r.block(), t)
	case "fixed":
		r.bytes(r.take(int64(t.size)), t)
	case "enum":
		if n := r.index(len(t.symbols)); r.err == nil {
			r.out = appendText(r.out, t.symbols[n])
		}
	case "union":
		if n := r.index(len(t.branches)); r.err == nil {
			r.value(t.branches[n], depth+1)
		}
	case "record":
		r.record(t, depth)
	default: // array, map
		r.list(t, depth)
	}
}

func (r *avroReader) record(t *avroType, depth int) {
	r.out = append(r.out, '{')
	for i, field := range t.fields {
		if i > 0 {
			r.out = append(r.out, ',')
		}
		r.out = append(r.out, field.prefix...)
		if r.value(field.value, depth+1); r.err != nil {
			return
		}
	}
	r.out = append(r.out, '}')
}

// list reads the blocks of an array or a map. A negative count is followed by the size of the
// block, and 0 ends the list.
func (r *avroReader) list(t *avroType, depth int) {
	ends := "[]"
	if t.kind == "map" {
		ends = "{}"
	}
	r.out = append(r.out, ends[0])
	isFirst := true
	for count := r.long(); count != 0; count = r.long() {
		if count < 0 {
			if count = -count; count < 0 {
				r.fail(badValue("it was not written with its schema: a list has a negative length"))
			}
			r.long()
		}
		for ; count > 0 && r.err == nil; count-- {
			if !isFirst {
				r.out = append(r.out, ',')
			}
			isFirst = false
			if t.kind == "map" {
				r.out = append(appendText(r.out, string(r.block())), ':')
			}
			r.value(t.item, depth+1)
		}
	}
	r.out = append(r.out, ends[1])
}

// take returns the next bytes. If too few bytes are left, it notes an error, and returns zeros for the
// types of a fixed length.
func (r *avroReader) take(n int64) []byte {
	if n < 0 || n > int64(len(r.data)) {
		r.fail(errCut)
		return make([]byte, 8)
	}
	taken := r.data[:n]
	r.data = r.data[n:]
	return taken
}

// long is 0 after an error.
func (r *avroReader) long() int64 {
	n, read := binary.Varint(r.data)
	if read <= 0 {
		r.fail(errCut)
		return 0
	}
	r.data = r.data[read:]
	return n
}

// block reads a length and then this number of bytes.
func (r *avroReader) block() []byte { return r.take(r.long()) }

func (r *avroReader) index(length int) int64 {
	n := r.long()
	if n < 0 || n >= int64(length) {
		r.fail(badValue("it was not written with its schema: it has index %d of %d", n, length))
	}
	return n
}

// number writes an integer, or a time. Times that avroTime.at refuses stay integers.
func (r *avroReader) number(n int64, logical string) {
	if t, isTime := avroTimes[logical]; isTime {
		if at, ok := t.at(n); ok {
			r.out = append(at.AppendFormat(append(r.out, '"'), t.layout), '"')
			return
		}
	}
	r.out = strconv.AppendInt(r.out, n, 10)
}

func (r *avroReader) float(f float64, bits int) {
	switch {
	case math.IsNaN(f):
		r.out = append(r.out, `"NaN"`...)
	case math.IsInf(f, 1):
		r.out = append(r.out, `"Infinity"`...)
	case math.IsInf(f, -1):
		r.out = append(r.out, `"-Infinity"`...)
	default:
		r.out = strconv.AppendFloat(r.out, f, 'g', -1, bits)
	}
}

// maxDecimal is the longest decimal, in bytes, that is written as a number; a longer decimal stays
// base64. The time of the conversion grows faster than the length.
const maxDecimal = 256

func (r *avroReader) bytes(b []byte, t *avroType) {
	switch {
	case t.logical == "decimal" && len(b) <= maxDecimal && t.scale <= 1000:
		r.out = append(r.out, '"')
		r.out = append(r.out, decimal(b, t.scale)...)
		r.out = append(r.out, '"')
	case t.logical == "uuid" && len(b) == 16:
		h := hex.EncodeToString(b)
		r.out = fmt.Appendf(r.out, `"%s-%s-%s-%s-%s"`, h[:8], h[8:12], h[12:16], h[16:20], h[20:])
	case t.logical == "duration" && len(b) == 12:
		r.out = fmt.Appendf(r.out, `{"months":%d,"days":%d,"milliseconds":%d}`,
			binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:]), binary.LittleEndian.Uint32(b[8:]))
	default:
		r.out = append(base64.StdEncoding.AppendEncode(append(r.out, '"'), b), '"')
	}
}

// decimal writes a two's complement, big-endian number with a scale.
func decimal(b []byte, scale int) string {
	n := new(big.Int).SetBytes(b)
	if len(b) > 0 && b[0]&0x80 != 0 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(len(b))*8))
	}
	if scale <= 0 {
		return n.String()
	}
	unit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale)), nil)
	return new(big.Rat).SetFrac(n, unit).FloatString(scale)
}

// appendText writes a string as JSON.
func appendText(out []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			quoted, _ := json.Marshal(text) // replaces invalid UTF-8
			return append(out, quoted...)
		}
	}
	out = append(append(append(out, '"'), text...), '"')
	return out
}
