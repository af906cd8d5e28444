/**
 * Credentials from the environment, where Lambda puts them. In the deployed bundle this module replaces the SDK's
 * credential provider chain (`lib/cdk/code/bundling.ts`), under the name that the SDK's clients import.
 */

import { fromEnv } from '@aws-sdk/credential-provider-env';

export const defaultProvider = fromEnv;
