package explain

import (
	"regexp"
	"strings"

	"hive-test/pkg/progress"
)

// goneSince stands for advice that needs a cluster which is no more.
const goneSince = "the cluster is gone since"

// needsCluster matches a command of this program that is about a cluster that exists.
var needsCluster = regexp.MustCompile(
	`\bhive-test (?:up|configure|test|down|status|wait|extend|hold|logs|ssh|exec|cp|env|inventory|unlock)\b`,
)

// Gone returns x without advice that needs the cluster, which was destroyed since. An up that failed can be done again.
func Gone(x *progress.Explanation) *progress.Explanation {
	if x == nil || x.Next == "" {
		return x
	}
	rest, cut := withoutCluster(x.Next, x.Phase)
	if !cut {
		return x
	}
	y := *x
	y.Next = strings.TrimPrefix(rest+"; "+goneSince, "; ")
	return &y
}

// withoutCluster returns advice without its parts that need the cluster, and whether there were any.
func withoutCluster(next, phase string) (rest string, cut bool) {
	var kept []string
	for part := range strings.SplitSeq(next, "; ") {
		command := needsCluster.FindString(part)
		if command != "" && !(phase == "up" && command == "hive-test up") {
			cut = true
			continue
		}
		kept = append(kept, part)
	}
	return strings.Join(kept, "; "), cut
}
