package postgres

import (
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"dlqmanager/dlq"
)

// signature is a set of trigrams, which are the sequences of three bytes in texts. Each trigram sets
// one bit, so a signature may seem to have a trigram that was never added. Letters are added in lower
// case, and every digit is added as 0, since many different numbers would set all bits.
//
// A signature with 400 trigrams has 5 % of the 8,192 bits set. For a text of eight characters whose
// trigrams were not added, the probability is 2e-8 that all its bits are set.
type signature [signatureBits / 8]byte

const (
	signatureBits = 8192
	trigram       = 3
)

// add adds the trigrams of a text. Another hash would need a migration that deletes all signatures.
func (s *signature) add(text string) {
	var last uint32
	for i := range len(text) {
		c := text[i]
		switch {
		case c >= 'A' && c <= 'Z':
			c += 'a' - 'A'
		case c >= '1' && c <= '9':
			c = '0'
		}
		last = last<<8&0xffffff | uint32(c)
		if i >= trigram-1 {
			bit := last * 0x9e3779b1 >> 19 // the upper 13 bits
			s[bit/8] |= 0x80 >> (bit % 8)
		}
	}
}

func (s *signature) bits() pgtype.Bits {
	return pgtype.Bits{Bytes: slices.Clone(s[:]), Len: signatureBits, Valid: true}
}

// searchedBits are up to eight bits. A signature without one of these bits shows that the filter matches no text of the
// group. There are no bits if the filter may match any group, for example with letters beyond ASCII, whose case
// signatures do not fold.
func searchedBits(f *dlq.Filter) (bits []int32) {
	var wanted signature
	for _, text := range []string{f.ErrorContains, f.Class, f.ConsumerGroup} {
		if text = dlq.StorableText(text); len(text) >= trigram && isASCII(text) {
			wanted.add(text)
		}
	}
	for i := range int32(signatureBits) {
		if wanted[i/8]&(0x80>>(i%8)) != 0 {
			bits = append(bits, i)
		}
	}
	if len(bits) > searchedAtOnce { // spread over all texts
		for i := range searchedAtOnce {
			bits[i] = bits[i*len(bits)/searchedAtOnce]
		}
		bits = bits[:searchedAtOnce]
	}
	return bits
}

// searchedAtOnce is how many bits impossibleGroups compares.
const searchedAtOnce = 8

// possibleGroupsSQL reads the groups of the topic that can have the texts of a search, and counts their messages in
// the topic. The counts also name deleted groups.
const possibleGroupsSQL = `
SELECT COALESCE(array_agg(g.id), '{}'), COALESCE(sum(g.messages), 0)::bigint
FROM (
	SELECT c.group_id AS id, sum(c.messages) AS messages
	FROM ` + groupCounts + ` AS c
	WHERE (c.dlq_topic = @topic OR c.original_topic = @topic) AND c.group_id NOT IN ` + impossibleGroups + `
	GROUP BY c.group_id
	HAVING sum(c.messages) > 0
	LIMIT 10001
) AS g`

const (
	// With few groups and messages, listFewSQL reads all of them.
	fewGroups, fewMessages = 1000, 20_000
	// The messages of groups are all over the table. Half a million messages take about a second to count.
	maxPossibleGroups, maxPossibleMessages = 10_000, 500_000
)

// possibleMessages is a condition on messages whose groups can have the texts of a search.
const possibleMessages = ` AND (m.group_id IS NULL OR m.group_id NOT IN ` + impossibleGroups + `)`

// impossibleGroups are the groups whose signature lacks a searched bit. To read single bits takes a third of the time that a
// comparison of bit strings takes.
const impossibleGroups = `(
	SELECT s.group_id
	FROM dlq.dlq_group_signatures s, (SELECT @searched_bits::int[] AS bit) AS w
	WHERE get_bit(s.bits, bit[1]) = 0 OR get_bit(s.bits, bit[2]) = 0 OR get_bit(s.bits, bit[3]) = 0 OR get_bit(s.bits, bit[4]) = 0
		OR get_bit(s.bits, bit[5]) = 0 OR get_bit(s.bits, bit[6]) = 0 OR get_bit(s.bits, bit[7]) = 0 OR get_bit(s.bits, bit[8]) = 0)`

// ofGroups is the condition possibleMessages with the groups that possibleGroupsSQL has found.
const ofGroups = ` AND (m.group_id IS NULL OR m.group_id IN (SELECT unnest(@groups::uuid[])))`

// pruned makes a statement leave out messages whose groups cannot have the class or the consumer group of a search,
// which are in the bodies. For a text in error messages it changes nothing: it is cheaper to compare each message.
func pruned(sql string, f *dlq.Filter, possible string) string {
	if f.Class == "" && f.ConsumerGroup == "" || len(searchedBits(f)) == 0 {
		return sql
	}
	return strings.ReplaceAll(sql, filterMark, filterMark+possible)
}

// signSQL adds bits to the signatures that lack some of the bits, in the transaction that stores the
// messages. It locks the signatures in the order of their groups' ids. Most messages add no bits.
const signSQL = `
WITH lacking AS MATERIALIZED (
	SELECT s.group_id, w.bits
	FROM unnest(@groups::uuid[], @bits::varbit[]) AS w (group_id, bits)
	JOIN dlq.dlq_group_signatures s ON s.group_id = w.group_id
	WHERE (s.bits & w.bits::bit(8192)) <> w.bits::bit(8192)
	ORDER BY s.group_id
	FOR NO KEY UPDATE OF s
)
UPDATE dlq.dlq_group_signatures s
SET bits = s.bits | l.bits::bit(8192)
FROM lacking l
WHERE s.group_id = l.group_id`

// signatureArgs are the parameters of signSQL: the groups of the rows, and the bits of their texts.
func signatureArgs(rows []*arrivalRow) pgx.NamedArgs {
	wanted := map[dlq.ID]*signature{}
	for _, row := range rows {
		if row.group.IsZero() {
			continue
		}
		if wanted[row.group] == nil {
			wanted[row.group] = &signature{}
		}
		for _, text := range []string{row.ErrorMessage, row.ErrorClass, row.CauseClass, row.Origin.ConsumerGroup} {
			wanted[row.group].add(text)
		}
	}
	var groups [][16]byte
	var bits []pgtype.Bits
	for id, signature := range wanted {
		groups, bits = append(groups, id), append(bits, signature.bits())
	}
	return pgx.NamedArgs{"groups": groups, "bits": bits}
}
