/**
 * Credentials as Lambda hands them to a function: in its environment. In what is deployed this takes the place of the
 * SDK's own search (`lib/cdk/bundling.ts`), under the name that the SDK's clients import.
 */

import { fromEnv } from '@aws-sdk/credential-provider-env';

export const defaultProvider = fromEnv;
