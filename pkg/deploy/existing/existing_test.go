package existing

import (
	"reflect"
	"testing"

	"hive-test/pkg/deploy"
)

// What hosts cannot do is not there, so that nobody asks them: above all, nothing deletes them.
func TestHostsCanDoNothingElse(t *testing.T) {
	capable := deploy.Of(Hosts{})
	if capable.Makes() {
		t.Error("hosts that were there count as made")
	}
	v := reflect.ValueOf(capable)
	for i := range v.NumField() {
		if name := v.Type().Field(i).Name; name != "Deployer" && !v.Field(i).IsNil() {
			t.Errorf("they can %s", name)
		}
	}
}
