/** A process that does nothing, to measure its memory. */

import { startMeasurement } from '../harness/measured-process.ts';

startMeasurement().finish();
