package hive

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// rawTar is an entry of an archive as a hostile node may write it.
func rawTar(kind byte, name string, body string) []byte {
	header := make([]byte, 512)
	copy(header, name)
	copy(header[100:], "0000600\x000000000\x000000000\x00")
	copy(header[124:], fmt.Sprintf("%011o\x00%011o\x00        ", len(body), 0))
	header[156] = kind
	copy(header[257:], "ustar\x0000")
	sum := 0
	for _, b := range header {
		sum += int(b)
	}
	copy(header[148:], fmt.Sprintf("%06o\x00 ", sum))
	padding := (512 - len(body)%512) % 512
	return append(append(header, body...), make([]byte, padding)...)
}

// A few bytes that are said to be a file of a terabyte cost a few bytes.
func TestUntarOfASparseFile(t *testing.T) {
	var records strings.Builder
	for _, record := range []string{
		"GNU.sparse.major=1", "GNU.sparse.minor=0", "GNU.sparse.name=big", "GNU.sparse.realsize=1099511627776",
	} {
		length := len(record) + 2
		for length != len(fmt.Sprintf("%d %s\n", length, record)) {
			length++
		}
		fmt.Fprintf(&records, "%d %s\n", length, record)
	}
	archive := bytes.Join(
		[][]byte{
			rawTar('x', "pax", records.String()), rawTar('0', "big", "0\n"+strings.Repeat("\x00", 510)),
			make([]byte, 1024),
		},
		nil,
	)
	files, err := untar(archive)
	if big, found := files["big"]; err != nil || !found || len(big) != len(archive) {
		t.Errorf("%d bytes, found: %v, error %v", len(big), found, err)
	}
}

// What a node puts into an archive is written below the evidence, or not at all.
func TestUntarOfHostileNames(t *testing.T) {
	for _, test := range []struct {
		kind byte
		name string
		want string
	}{
		{'0', "journal", "journal"},
		{'0', "./a/journal", "a/journal"},
		{'0', "a/../journal", "journal"},
		{'0', "../x", ""},
		{'0', "a/../../x", ""},
		{'0', "/etc/x", ""},
		{'0', "..", ""},
		{'2', "link", ""},
		{'1', "hard", ""},
		{'3', "device", ""},
		{'5', "../dir", ""},
	} {
		archive := append(rawTar(test.kind, test.name, ""), make([]byte, 1024)...)
		files, err := untar(archive)
		var want []string
		if test.want != "" {
			want = []string{test.want}
		}
		if err != nil || !slices.Equal(slices.Collect(maps.Keys(files)), want) {
			t.Errorf("%c %q: got %q, %v", test.kind, test.name, files, err)
		}
	}
}
