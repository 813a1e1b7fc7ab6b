package main_test

import (
	"go/ast"
	"go/token"
	"regexp"
	"strings"
	"testing"
)

// counted are texts that would say "1 nodes". What comes after a number that is part of a name or never 1 is let be.
var counted = regexp.MustCompile(
	`%d (?:more )?(?:nodes|VMs|clusters|hypervisors|hosts|checks|cases|arguments|services|peers|cores|addresses|bytes)\b`,
)

// Numbers of things are written by progress.Count, which knows "1 node" from "2 nodes".
func TestPlurals(t *testing.T) {
	letBe := []string{"leads through more than %d hosts", "socket buffer of %d bytes"} // never 1
	for _, s := range load(t) {
		if strings.HasSuffix(s.path, "_test.go") || below(s.pkg, "pkg/sim") || below(s.pkg, "pkg/deploy/deploytest") {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			literal, ok := n.(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING || !counted.MatchString(literal.Value) {
				return true
			}
			for _, text := range letBe {
				if strings.Contains(literal.Value, text) {
					return true
				}
			}
			t.Errorf("%s: %s: let progress.Count write the number", s.path, literal.Value)
			return true
		})
	}
}
