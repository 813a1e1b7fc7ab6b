# Ends an init or join that is under way on this node and leaves the rest alone.
set -euo pipefail

end init
end join
