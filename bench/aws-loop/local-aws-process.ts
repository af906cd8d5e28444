/** The process of as much of AWS as the functions need; its word says how long S3 takes to store an object. */

import { startLocalAws } from '../../test/support/aws/local-aws.ts';

const aws = await startLocalAws({ storingMs: Number(process.argv[2]) });
aws.secrets.set('reports/api-key', JSON.stringify({ apiKey: 'bench' }));
process.send?.({ env: aws.env, table: aws.table });

// Whoever started it may be killed.
process.on('disconnect', () => process.exit());
