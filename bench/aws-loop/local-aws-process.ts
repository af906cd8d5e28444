/** The process of local-aws.ts. Its argument is how long S3 takes to store an object, in milliseconds. */

import { startLocalAws } from '../../test/support/aws/local-aws.ts';

const aws = await startLocalAws({ putObjectDelayMs: Number(process.argv[2]) });
aws.secrets.set('reports/api-key', JSON.stringify({ apiKey: 'bench' }));
process.send?.({ env: aws.env, table: aws.table });

// The parent may be killed.
process.on('disconnect', () => process.exit());
