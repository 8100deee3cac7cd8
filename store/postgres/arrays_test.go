package postgres

import (
	"testing"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/stretchr/testify/require"
)

// arraysOfAPage are parameters as a page of a bulk retry has them.
func arraysOfAPage(n int) map[string]array {
	ids, places := make([][16]byte, n), make([]pgtype.TID, n)
	ints, longs := make([]int32, n), make([]int64, n)
	partitions, offsets := make([]*int32, n), make([]*int64, n)
	for i := range n {
		ids[i][0], ids[i][15] = byte(i), 0xff
		places[i] = pgtype.TID{BlockNumber: uint32(i) << 20, OffsetNumber: uint16(i), Valid: i != 1}
		ints[i], longs[i] = int32(-i), -int64(i)<<40
		if i%3 > 0 {
			partitions[i], offsets[i] = &ints[i], &longs[i]
		}
	}
	return map[string]array{"uuid": {pgtype.UUIDArrayOID, ids}, "tid": {pgtype.TIDArrayOID, places},
		"int4": {pgtype.Int4ArrayOID, ints}, "int8": {pgtype.Int8ArrayOID, longs},
		"int4 with nulls": {pgtype.Int4ArrayOID, partitions}, "int8 with nulls": {pgtype.Int8ArrayOID, offsets}}
}

type array struct {
	oid   uint32
	value any
}

// ofArrays are the driver's types with registerArrays.
func ofArrays() *pgtype.Map {
	types := pgtype.NewMap()
	registerArrays(types)
	return types
}

func TestArraysAreReadAsTheDriversOwn(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 2, 101} {
		for name, a := range arraysOfAPage(n) {
			ours, err := ofArrays().Encode(a.oid, pgtype.BinaryFormatCode, a.value, nil)
			require.NoError(t, err)
			theirs, err := pgtype.NewMap().Encode(a.oid, pgtype.BinaryFormatCode, a.value, nil)
			require.NoError(t, err)
			const nulls = 7 // the server does not read this flag, but looks for nulls itself
			ours[nulls], theirs[nulls] = 0, 0
			require.Equal(t, theirs, ours, "%d elements of %s", n, name)
		}
	}
}

func TestANilSliceIsNull(t *testing.T) {
	t.Parallel()
	encoded, err := ofArrays().Encode(pgtype.UUIDArrayOID, pgtype.BinaryFormatCode, [][16]byte(nil), nil)
	require.NoError(t, err)
	require.Nil(t, encoded)
}

// BenchmarkArrays compares our encoding with the driver's own encoding.
func BenchmarkArrays(b *testing.B) {
	for name, types := range map[string]*pgtype.Map{"driver": pgtype.NewMap(), "ours": ofArrays()} {
		b.Run(name, func(b *testing.B) {
			arrays, buf := arraysOfAPage(100), []byte(nil)
			for b.Loop() {
				for _, a := range arrays {
					buf, _ = types.Encode(a.oid, pgtype.BinaryFormatCode, a.value, buf[:0])
				}
			}
		})
	}
}
