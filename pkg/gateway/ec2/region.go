package ec2

import "strings"

// zoneID is the id of a region's first zone: ap-southeast-2 has apse2-az1.
func zoneID(region string) string {
	short := map[string]string{
		"north": "n", "south": "s", "east": "e", "west": "w", "central": "c", "northeast": "ne", "northwest": "nw",
		"southeast": "se", "southwest": "sw",
	}
	var id strings.Builder
	for word := range strings.SplitSeq(region, "-") {
		if s, known := short[word]; known {
			word = s
		}
		id.WriteString(word)
	}
	return id.String() + "-az1"
}
