package placement

import "regexp"

// SnippetName is the file name of a node's cloud-init snippet (tofu/main.tf). Clusters of one name that are made in
// different places have different owner ids, and so no snippet in common.
func SnippetName(node, ownerID string) string { return node + "-" + ownerID + "-vendor.yaml" }

// ParseSnippet reads the node's name and the owner id that SnippetName has written.
func ParseSnippet(file string) (node, ownerID string, ok bool) {
	parts := snippetPattern.FindStringSubmatch(file)
	if parts == nil {
		return "", "", false
	}
	return parts[1], parts[2], true
}

var snippetPattern = regexp.MustCompile(`^([a-z0-9-]+-[0-9]+)-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})-vendor\.yaml$`)
