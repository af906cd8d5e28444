"""The target of the Singer pipe: target-jsonl as its command runs it, one file per start.

Follows https://hub.meltano.com/loaders/target-jsonl/.
"""

import target_jsonl

from measurement import measured

with measured("target", begins=False):
    target_jsonl.main()
