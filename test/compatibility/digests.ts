/**
 * The digests of the fixtures, as `npm run fixtures` prints them. Only a version that is not released yet may get another one:
 * what a released version has written cannot change.
 */
export const digests: Readonly<Record<string, string>> = {
  '1.0': 'cc362a9e9d4de6430264dc15312d6f592b0e75ab9c787568c54ddb6156aefb5f',
};
