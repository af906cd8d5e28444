"""singer-sdk's other half: target-jsonl as its command runs it, a file for each start.

Follows https://hub.meltano.com/loaders/target-jsonl/.
"""

import target_jsonl

from measurement import measured

with measured("target", begins=False):
    target_jsonl.main()
