package postgres

import (
	"encoding/binary"

	"github.com/jackc/pgx/v5/pgtype"
)

// registerArrays replaces how the driver encodes the arrays of a page. The driver looks up the encoding of each element, which
// took a tenth of a worker's processor time in a bulk retry; see BenchmarkArrays.
func registerArrays(types *pgtype.Map) {
	registerArray(types, pgtype.UUIDArrayOID, pgtype.UUIDOID, putUUID)
	registerArray(types, pgtype.TIDArrayOID, pgtype.TIDOID, putTID)
	registerArray(types, pgtype.Int4ArrayOID, pgtype.Int4OID, putInt4)
	registerArray(types, pgtype.Int4ArrayOID, pgtype.Int4OID, orNull(putInt4))
	registerArray(types, pgtype.Int8ArrayOID, pgtype.Int8OID, putInt8)
	registerArray(types, pgtype.Int8ArrayOID, pgtype.Int8OID, orNull(putInt8))
}

func registerArray[T any](types *pgtype.Map, array, element uint32, put func([]byte, T) []byte) {
	known, _ := types.TypeForOID(array)
	types.RegisterType(&pgtype.Type{Name: known.Name, OID: array, Codec: arrayCodec[T]{known.Codec, element, put}})
}

// arrayCodec encodes slices of T in the binary format, and leaves everything else to another codec.
type arrayCodec[T any] struct {
	pgtype.Codec
	element uint32                 // the OID of the elements' type
	put     func([]byte, T) []byte // appends the length of an element and the element
}

// PlanEncode implements pgtype.Codec.
func (c arrayCodec[T]) PlanEncode(types *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if _, isOwn := value.([]T); isOwn && format == pgtype.BinaryFormatCode {
		return c
	}
	return c.Codec.PlanEncode(types, oid, format, value)
}

// Encode implements pgtype.EncodePlan. array_recv in PostgreSQL's arrayfuncs.c reads this format: the number of dimensions,
// whether there may be nulls, the type of the elements, and the length and the lower bound of each dimension.
func (c arrayCodec[T]) Encode(value any, buf []byte) ([]byte, error) {
	elements, _ := value.([]T)
	if elements == nil {
		return nil, nil
	}
	buf = appendInt4(buf, 1, 1, c.element, uint32(len(elements)), 1)
	for _, element := range elements {
		buf = c.put(buf, element)
	}
	return buf, nil
}

func appendInt4(buf []byte, values ...uint32) []byte {
	for _, v := range values {
		buf = binary.BigEndian.AppendUint32(buf, v)
	}
	return buf
}

func putUUID(buf []byte, id [16]byte) []byte { return append(appendInt4(buf, 16), id[:]...) }

func putInt4(buf []byte, v int32) []byte { return appendInt4(buf, 4, uint32(v)) }

func putInt8(buf []byte, v int64) []byte {
	return binary.BigEndian.AppendUint64(appendInt4(buf, 8), uint64(v))
}

func putTID(buf []byte, id pgtype.TID) []byte {
	if !id.Valid {
		return putNull(buf)
	}
	return binary.BigEndian.AppendUint16(appendInt4(buf, 6, id.BlockNumber), id.OffsetNumber)
}

func putNull(buf []byte) []byte { return appendInt4(buf, 1<<32-1) }

// orNull also encodes nil, as NULL.
func orNull[T any](put func([]byte, T) []byte) func([]byte, *T) []byte {
	return func(buf []byte, v *T) []byte {
		if v == nil {
			return putNull(buf)
		}
		return put(buf, *v)
	}
}
