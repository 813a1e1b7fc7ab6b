package engine

import (
	"context"
	"slices"

	"hive-test/pkg/template"
)

// imageContent is the input that tells one image from another of the same name.
const imageContent = "image content"

// imageContent tells which image the record's specification names now; empty: that is not known.
func (s *session) imageContent(ctx context.Context) string {
	deployer, err := s.Deployer()
	if err != nil || deployer.Templates == nil {
		return ""
	}
	return deployer.Templates.ImageContent(ctx, s.Record.Spec)
}

// differences are the inputs that are others now, as far as both are known: of an image's content that is not always so.
func differences(was, now template.Inputs) []template.Difference {
	return slices.DeleteFunc(was.Differences(now), func(d template.Difference) bool {
		return d.Input == imageContent && (d.Was == "" || d.Now == "")
	})
}
