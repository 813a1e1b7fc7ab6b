package template

import (
	"slices"
	"strings"

	"hive-test/pkg/deploy"
)

// Away returns those templates of a list whose hypervisors do not answer that may be meant by a name: a layer, or a version of one.
// With an empty name it is all.
func Away(list []deploy.Template, name string) []deploy.Template {
	return slices.DeleteFunc(slices.Clone(list), func(t deploy.Template) bool {
		return !t.Away || name != "" && !slices.ContainsFunc(t.Tags, func(tag string) bool {
			return tag == "hive-"+strings.TrimPrefix(name, "hive-") || strings.HasPrefix(name, tag+"-")
		})
	})
}
