/**
 * The digests of the fixtures, as `npm run fixtures` prints them. Only a version that is not released yet may get another one:
 * what a released version has written cannot change.
 */
export const digests: Readonly<Record<string, string>> = {
  '1.0': 'c0aeb92ef982926334c535af1e4166e682cba3bcae9324d9358a53f27fb57aec',
};
