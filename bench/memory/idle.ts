/** A process that does nothing, for its memory to be known. */

import { measuring } from '../harness/measured-process.ts';

measuring().tell();
