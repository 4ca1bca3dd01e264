# Builds once with everything, runs with what the server needs.
FROM node:20-bookworm-slim AS build
WORKDIR /lend
COPY package.json package-lock.json .npmrc tsconfig.json tsconfig.build.json ./
COPY bin bin
COPY src src
COPY schema schema
COPY bench bench
COPY drizzle drizzle
COPY web web
RUN npm ci && npm prune --omit=dev --ignore-scripts

FROM node:20-bookworm-slim
WORKDIR /lend
COPY --from=build /lend/package.json ./
COPY --from=build /lend/node_modules node_modules
COPY --from=build /lend/dist dist
COPY --from=build /lend/bin bin
COPY --from=build /lend/drizzle drizzle
RUN mkdir /data && chown node:node /data
ENV NODE_ENV=production LEND_DATA=/data
USER node
VOLUME /data
EXPOSE 4000
CMD ["node", "dist/src/main.js"]
